// Question: what does a pair of cudaMalloc and cudaFree cost on an idle device, at 1 MiB and at 64 MiB?
#include "common.cuh"

#include <algorithm>
#include <vector>

// Median over 21 batches, in nanoseconds a pair.
static double pair_ns(size_t bytes, int pairs) {
    std::vector<double> batches;
    for (int batch = 0; batch < 21; batch++) {
        const double begin = now_us();
        for (int i = 0; i < pairs; i++) {
            void *block;
            CHECK(cudaMalloc(&block, bytes));
            CHECK(cudaFree(block));
        }
        batches.push_back((now_us() - begin) * 1000 / pairs);
    }
    std::sort(batches.begin(), batches.end());
    return batches[batches.size() / 2];
}

int main() {
    CHECK(cudaFree(nullptr));
    pair_ns(MiB, 10);
    const double small = pair_ns(MiB, 500), large = pair_ns(64 * MiB, 100);
    std::printf("{\"ns_1m\": %.0f, \"ns_64m\": %.0f}\n", small, large);
}
