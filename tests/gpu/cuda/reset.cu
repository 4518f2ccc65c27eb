// Question: after cudaDeviceReset, with freed and live blocks from before it, does a new allocation give memory that can
// be written and read? (The driver gives the new context the same handle as the old one.)
#include "common.cuh"

int main() {
    unsigned long long result = 0;
    int same_address = 0, stale_frees = 0;
    for (int round = 0; round < 3; round++) {
        static void *before[8];
        for (int i = 0; i < 8; i++) {
            void *block;
            CHECK(cudaMalloc(&block, size_t(i + 1) * MiB));
            same_address += round && block == before[i];
            before[i] = block;
        }
        for (int i = 0; i < 7; i++) CHECK(cudaFree(before[i]));
        CHECK(cudaDeviceReset());

        unsigned long long *wrong, once = 0;
        CHECK(cudaMalloc(&wrong, sizeof *wrong));
        CHECK(cudaMemset(wrong, 0, sizeof *wrong));
        for (int i = 0; i < 8; i++) {
            uint32_t *block;
            const size_t count = size_t(i + 1) * MiB / 4;
            CHECK(cudaMalloc(&block, count * 4));
            fill<<<64, 256>>>(block, count, uint32_t(i + round));
            count_wrong<<<64, 256>>>(block, count, uint32_t(i + round), wrong);
            CHECK(cudaGetLastError());
            CHECK(cudaDeviceSynchronize());
            CHECK(cudaFree(block));
        }
        CHECK(cudaMemcpy(&once, wrong, sizeof once, cudaMemcpyDeviceToHost));
        CHECK(cudaFree(wrong));
        result += once;
        // A block from before the reset is no longer anybody's: freeing it is an error, and must stay one.
        stale_frees += cudaFree(before[7]) == cudaSuccess;
        cudaGetLastError();
    }
    std::printf("{\"wrong\": %llu, \"same_address\": %d, \"stale_frees\": %d}\n", result, same_address, stale_frees);
    return result != 0;
}
