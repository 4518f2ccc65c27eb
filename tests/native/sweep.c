// A fixed little job that must survive, or pass on, a failure of any of its driver calls.
#include "cu.h"

int main(void) {
    CUdeviceptr blocks[8] = {0};
    start(0);
    CUstream stream = NULL;
    cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    int failed = 0;
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 8; i++) {
            CUresult code = cuMemAlloc_v2(&blocks[i], (size_t)(i % 2 ? 3 * MiB : 3000) * (size_t)(i + 1));
            if (code) {
                failed++;
                REQUIRE(blocks[i] == 0);
            }
        }
        for (int i = 0; i < 8; i++) {
            if (!blocks[i]) continue;
            for (int j = 0; j < i; j++) REQUIRE(blocks[i] != blocks[j]);
            simcuda_kernel(stream, 100, blocks[i], 3000, (uint8_t)(i + 1));
        }
        cuStreamSynchronize(stream);
        for (int i = 0; i < 8; i++)
            if (blocks[i]) REQUIRE(simcuda_check(blocks[i], 3000, (uint8_t)(i + 1)));
        for (int i = 0; i < 8; i++) {
            if (!blocks[i]) continue;
            CUresult code = cuMemFree_v2(blocks[i]);
            failed += code != 0;
        }
    }
    say("failed", (unsigned long long)failed);
    return 0;
}
