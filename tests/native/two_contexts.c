// Are the pools of two contexts of one device kept apart?
#include "cu.h"

int main(void) {
    CUcontext primary = start(0), other;
    CUdeviceptr block = take(4 * MiB);
    CHECK(cuMemFree_v2(block));
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxCreate_v2(&other, 0, 0));
    CUdeviceptr theirs = take(4 * MiB);
    say("same", theirs == block);
    CHECK(cuCtxSetCurrent(primary));
    // Freed with another context current: it belongs to the context of its allocation.
    CHECK(cuMemFree_v2(theirs));
    CHECK(cuCtxDestroy_v2(other));
    CUdeviceptr again = take(4 * MiB);
    say("dead", again == theirs && again != block);
    CHECK(simcuda_kernel(0, 10, again, 4 * MiB, 0x55));
    CHECK(cuCtxSynchronize());
    say("right", (unsigned long long)simcuda_check(again, 4 * MiB, 0x55));
    return 0;
}
