// A process with contexts on two devices frees during a capture, where nothing of it may be reused: is it there for the next
// request, in the capture and right after it?
#include "cu.h"

int main(void) {
    CUgraph graph;
    CUdeviceptr block = 0;
    int code = 0;
    start(1);
    take(MiB);
    start(0);
    take(MiB);
    CUstream stream = new_stream();
    CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    for (int round = 0; round < 20 && !code; round++) {
        code = cuMemAlloc_v2(&block, 10240ull * MiB);
        if (!code) CHECK(cuMemFree_v2(block));
    }
    say("within", (unsigned long long)code);
    CHECK(cuStreamEndCapture(stream, &graph));
    say("after", (unsigned long long)cuMemAllocManaged(&block, 61440ull * MiB, 1));
    return 0;
}
