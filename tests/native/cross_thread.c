// One thread allocates, another frees, through a ring: do both agree on every block? BLOCKS
#include "cu.h"

enum { RING = 64 };
static CUdeviceptr ring[RING];
static CUcontext context;
static long blocks;

static void *consumer(void *unused) {
    CHECK(cuCtxSetCurrent(context));
    for (long i = 0; i < blocks; i++) {
        CUdeviceptr block;
        while (!(block = __atomic_exchange_n(&ring[i % RING], 0, __ATOMIC_ACQ_REL))) sched_yield();
        CHECK(cuMemFree_v2(block));
    }
    return unused;
}

int main(int argc, char **argv) {
    pthread_t thread;
    blocks = argc > 1 ? atol(argv[1]) : 20000;
    context = start(0);
    CHECK(pthread_create(&thread, NULL, consumer, NULL));
    for (long i = 0; i < blocks; i++) {
        CUdeviceptr block = take((size_t)(1 + i % 7) * 700);
        while (__atomic_load_n(&ring[i % RING], __ATOMIC_ACQUIRE)) sched_yield();
        __atomic_store_n(&ring[i % RING], block, __ATOMIC_RELEASE);
    }
    CHECK(pthread_join(thread, NULL));
    say("blocks", (unsigned long long)blocks);
    return 0;
}
