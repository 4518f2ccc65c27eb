// One thread begins and ends captures while others make, use and destroy contexts. ROUNDS
#include "cu.h"

static volatile int stop;

static void *contexts(void *unused) {
    while (!stop) {
        CUcontext context;
        CHECK(cuCtxCreate_v2(&context, 0, 0));
        CUdeviceptr block = 0;
        // A miss may fall into the other thread's capture: that is the program's own doing, in relaxed mode it is none.
        CHECK(cuMemAlloc_v2(&block, 4 * MiB));
        CHECK(cuMemFree_v2(block));
        CHECK(cuCtxDestroy_v2(context));
    }
    return unused;
}

int main(int argc, char **argv) {
    long rounds = argc > 1 ? atol(argv[1]) : 300;
    pthread_t threads[2];
    start(0);
    CUstream stream = new_stream();
    for (int i = 0; i < 2; i++) CHECK(pthread_create(threads + i, NULL, contexts, NULL));
    for (long i = 0; i < rounds; i++) {
        CUgraph graph = NULL;
        CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        CHECK(cuMemFree_v2(take(4 * MiB)));
        CHECK(cuStreamEndCapture(stream, &graph));
        CHECK(cuGraphDestroy(graph));
    }
    stop = 1;
    for (int i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL));
    say("rounds", (unsigned long long)rounds);
    return 0;
}
