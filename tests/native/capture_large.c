// Half of the card is freed during a capture, then more than the other half is asked for.
#include "cu.h"

int main(void) {
    CUgraph graph;
    CUdeviceptr block = 0;
    start(0);
    CUstream stream = new_stream();
    CUdeviceptr half = take(40960ull * MiB);
    CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuMemFree_v2(half));
    say("code", (unsigned long long)cuMemAlloc_v2(&block, 61440ull * MiB));
    CHECK(cuStreamEndCapture(stream, &graph));
    return 0;
}
