// Does a capture survive the frees and allocations that happen meanwhile, and are they done right afterwards?
// global|thread|relaxed
#include "cu.h"

static CUcontext context;
static CUdeviceptr blocks[16];
static CUdeviceptr big;

// What a second thread does while the main thread captures: frees blocks whose work is done and one whose work is not.
static void *other(void *mode) {
    CHECK(cuCtxSetCurrent(context));
    for (int i = 0; i < 16; i++) CHECK(cuMemFree_v2(blocks[i]));
    CHECK(cuMemFree_v2(big));
    // Where the driver would allow an allocation on this thread, it must work here too.
    if (*(int *)mode != CU_STREAM_CAPTURE_MODE_GLOBAL) {
        CUdeviceptr more = take(4 * MiB);
        CHECK(cuMemFree_v2(more));
    }
    return NULL;
}

int main(int argc, char **argv) {
    int mode = capture_mode(argc > 1 ? argv[1] : "global");
    pthread_t thread;
    CUgraph graph = NULL;
    context = start(0);
    CUstream captured = new_stream(), slow = new_stream();
    for (int i = 0; i < 16; i++) blocks[i] = take(i % 2 ? 4 * MiB : 4 * KiB);
    big = take(8 * MiB);
    CUdeviceptr cached = take(16 * MiB);
    CHECK(cuMemFree_v2(cached));
    CHECK(cuCtxSynchronize());
    CHECK(simcuda_kernel(slow, 50000, big, 8 * MiB, 0xaa));
    CHECK(cuStreamBeginCapture_v2(captured, mode));
    CHECK(pthread_create(&thread, NULL, other, &mode));
    CHECK(pthread_join(thread, NULL));
    // A block from the cache needs no driver call: more lenient than the driver, never less.
    say("cached_during_capture", (unsigned long long)cuMemAlloc_v2(&cached, 16 * MiB));
    say("end", (unsigned long long)cuStreamEndCapture(captured, &graph));
    say("graph", graph != NULL);
    // Afterwards: the block whose work still runs must not be handed out under it.
    CUdeviceptr again = take(8 * MiB);
    CHECK(simcuda_kernel(captured, 10, again, 8 * MiB, 0x55));
    CHECK(cuCtxSynchronize());
    say("right", (unsigned long long)simcuda_check(again, 8 * MiB, 0x55));
    CHECK(cuMemFree_v2(again));
    CHECK(cuGraphDestroy(graph));
    return 0;
}
