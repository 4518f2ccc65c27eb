// Two streams capture; the one that began later ends first, and frees happen in between.
#include "cu.h"

int main(void) {
    CUgraph first = NULL, second = NULL;
    start(0);
    CUstream one = new_stream(), two = new_stream(), slow = new_stream();
    CUdeviceptr a = take(4 * MiB), b = take(4 * MiB);
    CHECK(simcuda_kernel(slow, 50000, b, 4 * MiB, 0xaa));
    CHECK(cuStreamBeginCapture_v2(one, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK(cuStreamBeginCapture_v2(two, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK(cuMemFree_v2(a));
    say("second", (unsigned long long)cuStreamEndCapture(two, &second));
    CHECK(cuMemFree_v2(b));
    say("first", (unsigned long long)cuStreamEndCapture(one, &first));
    REQUIRE(first && second);
    CUdeviceptr c = take(4 * MiB), d = take(4 * MiB);
    CHECK(simcuda_kernel(one, 10, c, 4 * MiB, 1));
    CHECK(simcuda_kernel(two, 10, d, 4 * MiB, 2));
    CHECK(cuCtxSynchronize());
    say("right", (unsigned long long)(simcuda_check(c, 4 * MiB, 1) && simcuda_check(d, 4 * MiB, 2)));
    return 0;
}
