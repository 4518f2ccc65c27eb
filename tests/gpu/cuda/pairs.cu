// Question: what does a pair of cudaMalloc and cudaFree cost on an idle device, at 1 MiB and at 64 MiB? Each size is warmed up
// first and measured in batches of about 10 ms: under a pool the first milliseconds of a process say more about the processor.
#include "common.cuh"

#include <algorithm>
#include <vector>

static void pairs(size_t bytes, int count) {
    for (int i = 0; i < count; i++) {
        void *block;
        CHECK(cudaMalloc(&block, bytes));
        CHECK(cudaFree(block));
    }
}

// Prints the median and the fastest of 21 batches, in nanoseconds a pair.
static void measure(const char *name, size_t bytes) {
    int warm = 0;
    for (const double end = now_us() + 200'000; now_us() < end; warm += 10) pairs(bytes, 10);
    const int count = std::max(10, warm / 20);
    std::vector<double> batches;
    for (int batch = 0; batch < 21; batch++) {
        const double begin = now_us();
        pairs(bytes, count);
        batches.push_back((now_us() - begin) * 1000 / count);
    }
    std::sort(batches.begin(), batches.end());
    std::printf("\"ns_%s\": %.0f, \"ns_%s_fastest\": %.0f, ", name, batches[batches.size() / 2], name, batches[0]);
}

int main() {
    CHECK(cudaFree(nullptr));
    std::printf("{");
    measure("1m", MiB);
    measure("64m", 64 * MiB);
    std::printf("\"batches\": 21}\n");
}
