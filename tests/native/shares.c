// One of several processes with a share each: how much can it take, and what did it see? BYTES in each piece
#include "cu.h"

int main(int argc, char **argv) {
    CUdeviceptr block;
    size_t bytes = strtoull(argv[1], NULL, 0), free, total, taken = 0;
    (void)argc;
    start(0);
    for (int i = 0; i < 64; i++) {
        CHECK(cuMemGetInfo_v2(&free, &total));
        REQUIRE(free <= total);
        CUresult code = cuMemAlloc_v2(&block, bytes);
        if (code == CUDA_ERROR_OUT_OF_MEMORY) break;
        CHECK(code);
        taken += bytes;
    }
    say("taken", taken);
    say("total", total);
    return 0;
}
