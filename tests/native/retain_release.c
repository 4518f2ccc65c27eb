// Threads retain and release the primary context, which lives on all the same, while this one allocates and frees. Is all of the
// card there again afterwards? MILLISECONDS
#include "cu.h"

static int stop;

static void *retain(void *unused) {
    CUcontext context;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        CHECK(cuDevicePrimaryCtxRetain(&context, 0));
        CHECK(cuDevicePrimaryCtxRelease_v2(0));
    }
    return unused;
}

int main(int argc, char **argv) {
    pthread_t threads[2];
    size_t before, after, total;
    long refused = 0;
    start(0);
    CHECK(cuMemGetInfo_v2(&before, &total));
    for (int i = 0; i < 2; i++) CHECK(pthread_create(threads + i, NULL, retain, NULL));
    double end = now_s() + (argc > 1 ? atol(argv[1]) : 1000) / 1000.0;
    // No size is served by the block of the round before: each takes new memory, and gives the old back.
    for (unsigned round = 0; now_s() < end; round++) {
        CUdeviceptr block;
        if (cuMemAlloc_v2(&block, (20 + round * 7 % 50) * 1024ull * MiB))
            refused++;
        else
            CHECK(cuMemFree_v2(block));
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL));
    CHECK(cuMemGetInfo_v2(&after, &total));
    say("refused", (unsigned long long)refused);
    say("lost", before - after);
    return 0;
}
