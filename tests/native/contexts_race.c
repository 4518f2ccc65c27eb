// Threads make contexts, allocate, free and destroy them, all at once: is a free of a live block ever refused? MILLISECONDS
#include "cu.h"

enum { BLOCKS = 64, THREADS = 4 };
static int stop;
static long refused, rounds;

static void *one(void *unused) {
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        CUcontext context;
        CUdeviceptr blocks[BLOCKS];
        CHECK(cuCtxCreate_v2(&context, 0, 0));
        for (int i = 0; i < BLOCKS; i++) blocks[i] = take(MiB);
        for (int i = 0; i < BLOCKS / 2; i++)
            if (cuMemFree_v2(blocks[i])) __atomic_fetch_add(&refused, 1, __ATOMIC_RELAXED);
        CHECK(cuCtxDestroy_v2(context));
        __atomic_fetch_add(&rounds, 1, __ATOMIC_RELAXED);
    }
    return unused;
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    start(0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(threads + i, NULL, one, NULL));
    pause_ms(argc > 1 ? atol(argv[1]) : 1000);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL));
    say("rounds", (unsigned long long)rounds);
    say("refused", (unsigned long long)refused);
    return 0;
}
