// The ends of a process that uses the C API. LIBRARY exit|fork|close
#include "capi.h"
#include <sys/wait.h>

static void *live;

// Registered before the first CUDA call, so it runs after the driver has ended.
static void at_the_end(void) {
    void *block;
    int code = api.alloc(512, 0, NULL, &block);
    say("hit_at_exit", code == CENOTE_OK && api.free(block) == CENOTE_OK);
    say("miss_at_exit", (unsigned long long)api.alloc(512 * MiB, 0, NULL, &block));
    say("free_at_exit", (unsigned long long)api.free(live));
    say("trim_at_exit", api.trim());
}

static void *in_thread(void *unused) {
    (void)unused;
    return api.torch_alloc(4096, 0, NULL);
}

int main(int argc, char **argv) {
    pthread_t thread;
    void *block;
    REQUIRE(argc > 2);
    open_api(argv[1]);
    if (!strcmp(argv[2], "exit")) atexit(at_the_end);
    start(0);
    live = get(4 * MiB, NULL);
    CHECK(api.free(get(512, NULL)));
    if (!strcmp(argv[2], "fork")) {
        pid_t child = fork();
        if (!child) {
            EXPECT(CENOTE_DEINITIALIZED, api.alloc(512, 0, NULL, &block));
            EXPECT(CENOTE_OK, api.free(live));
            REQUIRE(!api.torch_alloc(512, 0, NULL) && !api.trim());
            api.torch_free(live, 4 * MiB, 0, NULL);
            _exit(0);
        }
        int status;
        REQUIRE(waitpid(child, &status, 0) == child);
        say("child", (unsigned long long)WEXITSTATUS(status));
        CHECK(api.free(live));
    }
    if (!strcmp(argv[2], "close")) {
        // A thread that outlives the last handle of the library still has its counters there.
        void *library = dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD);
        REQUIRE(library && !dlclose(library) && !dlclose(library));
        CHECK(pthread_create(&thread, NULL, in_thread, NULL));
        CHECK(pthread_join(thread, &block));
        CHECK(api.free(live));
        CHECK(api.free(block));
        say("live", stats_now().allocated_bytes.current);
    }
    return 0;
}
