// Question: does a block ever change hands while somebody may still use it? Threads with several streams each allocate
// random sizes, fill them with a value of their own, count the wrong elements at the end of the block's life and free it
// while those kernels may still run; some blocks are freed by another thread, some are used on a second stream (ordered
// by an event). Any wrong element is a block that had two owners.
#include "common.cuh"

#include <atomic>
#include <cmath>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

struct Block {
    uint32_t *data;
    size_t count;
    uint32_t value;
    int stream;
};

static std::mutex handed_lock;
static std::vector<void *> handed;  // blocks that any thread may free
static std::atomic<uint32_t> next_value{1};
static std::atomic<long> blocks{0}, bytes{0}, handovers{0}, out_of_memory{0};

static void worker(unsigned seed, double end_us, size_t max_bytes, unsigned long long *wrong) {
    std::mt19937_64 random(seed);
    cudaStream_t streams[8];
    for (auto &stream : streams) stream = new_stream();
    cudaEvent_t event;
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    std::vector<Block> live;

    const auto retire = [&](size_t index) {
        const Block block = live[index];
        live[index] = live.back();
        live.pop_back();
        int stream = block.stream;
        if (random() % 4 == 0) {
            CHECK(cudaEventRecord(event, streams[stream]));
            stream = int(random() % 8);
            CHECK(cudaStreamWaitEvent(streams[stream], event, 0));
        }
        count_wrong<<<blocks_for(block.count), 256, 0, streams[stream]>>>(block.data, block.count, block.value, wrong);
        CHECK(cudaGetLastError());
        if (random() % 8 == 0) {
            std::lock_guard<std::mutex> guard(handed_lock);
            handed.push_back(block.data);
            handovers++;
        } else {
            CHECK(cudaFree(block.data));
        }
    };

    while (now_us() < end_us) {
        const double exponent = double(random() >> 11) / double(1ull << 53);
        const size_t size = size_t(512 * std::pow(double(max_bytes) / 512, exponent)) & ~size_t(3);
        uint32_t *data;
        const cudaError_t status = cudaMalloc(&data, size);
        if (status == cudaErrorMemoryAllocation) {
            out_of_memory++;
            cudaGetLastError();
        } else {
            CHECK(status);
            const Block block{data, size / 4, next_value++ * 2654435761u, int(random() % 8)};
            fill<<<blocks_for(block.count), 256, 0, streams[block.stream]>>>(block.data, block.count, block.value);
            CHECK(cudaGetLastError());
            live.push_back(block);
            blocks++;
            bytes += long(size);
        }
        while (live.size() > 12 || (!live.empty() && random() % 3 == 0)) retire(random() % live.size());

        std::vector<void *> taken;
        {
            std::lock_guard<std::mutex> guard(handed_lock);
            taken.swap(handed);
        }
        for (void *block : taken) CHECK(cudaFree(block));
    }
    while (!live.empty()) retire(live.size() - 1);
    for (auto stream : streams) CHECK(cudaStreamSynchronize(stream));
}

int main(int argc, char **argv) {
    const double seconds = argc > 1 ? std::atof(argv[1]) : 10;
    const size_t max_bytes = (argc > 2 ? std::atol(argv[2]) : 64) * MiB;
    const int threads = argc > 3 ? std::atoi(argv[3]) : 8;
    unsigned long long *wrong, result = 0;
    CHECK(cudaMalloc(&wrong, sizeof *wrong));
    CHECK(cudaMemset(wrong, 0, sizeof *wrong));
    CHECK(cudaDeviceSynchronize());
    const double end = now_us() + seconds * 1e6;
    std::vector<std::thread> workers;
    for (int i = 0; i < threads; i++) workers.emplace_back(worker, 100 + i, end, max_bytes, wrong);
    for (auto &thread : workers) thread.join();
    for (void *block : handed) CHECK(cudaFree(block));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(&result, wrong, sizeof result, cudaMemcpyDeviceToHost));
    std::printf("{\"wrong\": %llu, \"blocks\": %ld, \"gib\": %.1f, \"handovers\": %ld, \"out_of_memory\": %ld}\n", result,
                blocks.load(), double(bytes) / GiB, handovers.load(), out_of_memory.load());
    return result != 0;
}
