// Is a block of cuMemAlloc that goes back through cuMemFreeAsync reused only after the stream's work? And the reverse.
#include "cu.h"

int main(void) {
    CUdeviceptr block;
    start(0);
    CUstream slow = new_stream(), fast = new_stream();
    block = take(4 * MiB);
    CHECK(simcuda_kernel(slow, 50000, block, 4 * MiB, 0xaa));
    CHECK(cuMemFreeAsync(block, slow));
    say("double", (unsigned long long)cuMemFree_v2(block));
    CUdeviceptr next = take(4 * MiB);
    CHECK(simcuda_kernel(fast, 10, next, 4 * MiB, 0x55));
    CHECK(cuCtxSynchronize());
    say("right", (unsigned long long)simcuda_check(next, 4 * MiB, 0x55));
    CHECK(cuMemFree_v2(next));
    CHECK(cuMemAllocAsync(&block, 3 * MiB, slow));
    CHECK(cuStreamSynchronize(slow));
    say("reverse", (unsigned long long)cuMemFree_v2(block));
    return 0;
}
