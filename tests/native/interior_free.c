// Is the free of a pointer into a block refused, and the block left alone?
#include "cu.h"

int main(void) {
    start(0);
    CUdeviceptr small = take(8192), large = take(8 * MiB);
    CHECK(simcuda_kernel(0, 1, small, 8192, 7));
    CHECK(simcuda_kernel(0, 1, large, 8 * MiB, 8));
    CHECK(cuCtxSynchronize());
    say("small", (unsigned long long)cuMemFree_v2(small + 4096));
    say("large", (unsigned long long)cuMemFree_v2(large + 4096));
    say("odd", (unsigned long long)cuMemFree_v2(small + 1));
    say("right", (unsigned long long)(simcuda_check(small, 8192, 7) && simcuda_check(large, 8 * MiB, 8)));
    say("free_small", (unsigned long long)cuMemFree_v2(small));
    say("free_large", (unsigned long long)cuMemFree_v2(large));
    return 0;
}
