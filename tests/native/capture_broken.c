// The program breaks its own capture by a synchronise; afterwards blocks must become free again.
#include "cu.h"

int main(void) {
    CUgraph graph = NULL;
    start(0);
    CUstream stream = new_stream();
    CUdeviceptr block = take(4 * MiB);
    CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK(cuMemFree_v2(block));
    REQUIRE(cuCtxSynchronize() != CUDA_SUCCESS);
    REQUIRE(cuStreamEndCapture(stream, &graph) != CUDA_SUCCESS);
    CHECK(cuCtxSynchronize());
    // Its free is settled by then, so the block serves again.
    CHECK(cuMemFree_v2(take(16 * MiB)));
    CHECK(cuCtxSynchronize());
    uint64_t before = simcuda_calls("cuMemAlloc_v2");
    CHECK(cuMemFree_v2(take(4 * MiB)));
    say("hits_after", simcuda_calls("cuMemAlloc_v2") == before);
    return 0;
}
