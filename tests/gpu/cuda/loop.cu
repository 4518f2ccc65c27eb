// Question: does a program that allocates 64 MiB, fills it and frees it 10,000 times without ever synchronising finish
// inside a card that it would overfill five times, and does every kernel see its own values? Built with the static and
// with the shared runtime: the static one is reached through cuGetProcAddress alone.
#include "common.cuh"

int main(int argc, char **argv) {
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 10000;
    const size_t bytes = 64 * MiB, count = bytes / 4;
    cudaStream_t streams[4];
    for (auto &stream : streams) stream = new_stream();
    unsigned long long *wrong, result = 0;
    CHECK(cudaMalloc(&wrong, sizeof *wrong));
    CHECK(cudaMemset(wrong, 0, sizeof *wrong));
    CHECK(cudaDeviceSynchronize());

    const double begin = now_us();
    for (int i = 0; i < rounds; i++) {
        uint32_t *block;
        CHECK(cudaMalloc(&block, bytes));
        fill<<<512, 256, 0, streams[i % 4]>>>(block, count, uint32_t(i) * 2654435761u);
        count_wrong<<<512, 256, 0, streams[i % 4]>>>(block, count, uint32_t(i) * 2654435761u, wrong);
        CHECK(cudaGetLastError());
        CHECK(cudaFree(block));
    }
    const double host = now_us() - begin;
    CHECK(cudaDeviceSynchronize());
    const double whole = now_us() - begin;
    CHECK(cudaMemcpy(&result, wrong, sizeof result, cudaMemcpyDeviceToHost));
    std::printf("{\"rounds\": %d, \"wrong\": %llu, \"host_s\": %.3f, \"total_s\": %.3f}\n", rounds, result, host / 1e6,
                whole / 1e6);
    return result != 0;
}
