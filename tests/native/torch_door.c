// The entry points of a pluggable allocator, as PyTorch uses them: the library is opened by its path, as ctypes does.
#include "driver.h"

typedef void *(*AllocDoor)(size_t, int, CUstream);
typedef void (*FreeDoor)(void *, size_t, int, CUstream);

static AllocDoor door_alloc;
static FreeDoor door_free;

static void *in_thread(void *block) {
    door_free(block, 4 * MiB, 0, 0);
    return NULL;
}

int main(int argc, char **argv) {
    size_t before, after, total;
    pthread_t thread;
    REQUIRE(argc > 1);
    start(0);
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) fprintf(stderr, "%s\n", dlerror());
    REQUIRE(library);
    door_alloc = (AllocDoor)dlsym(library, "cenote_torch_alloc");
    door_free = (FreeDoor)dlsym(library, "cenote_torch_free");
    unsigned long long (*trim)(void) = (unsigned long long (*)(void))dlsym(library, "cenote_trim");
    REQUIRE(door_alloc && door_free && trim);
    CHECK(cuMemGetInfo_v2(&before, &total));
    CUstream one = new_stream(), two = new_stream();

    say("nothing", door_alloc(0, 0, one) == NULL);
    void *a = door_alloc(4 * MiB, 0, one), *b = door_alloc(1000, 0, one), *c = door_alloc(4 * MiB, 0, two);
    REQUIRE(a && b && c && a != c);
    say("aligned", (uintptr_t)a % 512 == 0 && (uintptr_t)b % 512 == 0);
    CHECK(simcuda_kernel(one, 100000, (CUdeviceptr)(uintptr_t)a, 4 * MiB, 1));
    CHECK(simcuda_kernel(one, 10, (CUdeviceptr)(uintptr_t)b, 1000, 2));
    CHECK(simcuda_kernel(two, 10, (CUdeviceptr)(uintptr_t)c, 4 * MiB, 3));
    say("right", simcuda_check((CUdeviceptr)(uintptr_t)c, 4 * MiB, 3));
    // The same stream gets it back at once, while the work on it still runs.
    door_free(a, 4 * MiB, 0, one);
    void *again = door_alloc(4 * MiB, 0, one);
    say("same", again == a);
    CHECK(simcuda_kernel(one, 10, (CUdeviceptr)(uintptr_t)again, 4 * MiB, 4));
    CHECK(pthread_create(&thread, NULL, in_thread, again));
    CHECK(pthread_join(thread, NULL));
    door_free(b, 1000, 0, one);
    door_free(c, 4 * MiB, 0, two);
    say("trimmed", trim());
    CHECK(cuMemGetInfo_v2(&after, &total));
    say("back", before == after);
    say("too_much", door_alloc(total * 2, 0, one) == NULL);

    double begin = now_s();
    enum { PAIRS = 1000000 };
    for (int i = -1000; i < PAIRS; i++) {
        if (i == 0) begin = now_s();
        door_free(door_alloc(1 * MiB, 0, one), 1 * MiB, 0, one);
    }
    say("pair_ps", (unsigned long long)((now_s() - begin) / PAIRS * 1e12));
    return 0;
}
