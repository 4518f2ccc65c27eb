// C21 (c): forks while other threads are inside the allocator; each child frees and is gone within a second. FORKS
#include "cu.h"
#include <sys/wait.h>

static CUcontext context;
static volatile int stop;

static void *busy(void *unused) {
    CHECK(cuCtxSetCurrent(context));
    while (!stop) {
        CUdeviceptr small = take(4096), large = take(4 * MiB);
        CHECK(cuMemFree_v2(small));
        CHECK(cuMemFree_v2(large));
    }
    return unused;
}

int main(int argc, char **argv) {
    int forks = argc > 1 ? atoi(argv[1]) : 50;
    pthread_t threads[3];
    double longest = 0;
    context = start(0);
    CUdeviceptr block = take(1048576);
    for (int i = 0; i < 3; i++) CHECK(pthread_create(threads + i, NULL, busy, NULL));
    for (int i = 0; i < forks; i++) {
        pid_t child = fork();
        if (!child) {
            alarm(5);
            cuMemFree_v2(block);
            exit(0);
        }
        int status;
        double begin = now_s();
        REQUIRE(waitpid(child, &status, 0) == child && status == 0);
        if (now_s() - begin > longest) longest = now_s() - begin;
    }
    stop = 1;
    for (int i = 0; i < 3; i++) CHECK(pthread_join(threads[i], NULL));
    say("longest_ms", (unsigned long long)(longest * 1000));
    say("forks", (unsigned long long)forks);
    return 0;
}
