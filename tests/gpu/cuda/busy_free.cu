// Question: how long does cudaFree take while a kernel of 200 ms runs on a non-blocking stream, and how long is a launch
// of another thread on another stream held up meanwhile? (Without a pool the first free of a round waits for the kernel, and
// the others find the device idle.) And what does the allocation after them take, when it finds nothing that is
// done? The very first free of the process, and that of every second round, comes from a thread that runs; the others after a rest.
// What of a free after a rest is the rest's, and what the runtime's: two calls that do next to nothing come after the same rest,
// and in half of these rounds the blocks are freed through the driver, past the runtime.
#include "common.cuh"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

int main(int argc, char **argv) {
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 20;
    LongKernel kernel;
    std::atomic<bool> freeing{false}, done{false}, ready{false};
    double longest_launch = 0, longest_wait = 0;
    long launches = 0;
    std::vector<double> each_launch;

    each_launch.reserve(1 << 20);
    std::thread launcher([&] {
        cudaStream_t stream = new_stream();
        for (int i = 0; i < 100; i++) nothing<<<1, 1, 0, stream>>>();
        CHECK(cudaStreamSynchronize(stream));
        ready = true;
        while (!done) {
            const bool during = freeing;
            double begin = now_us();
            nothing<<<1, 1, 0, stream>>>();
            const double launch = now_us() - begin;
            if (each_launch.size() < each_launch.capacity()) each_launch.push_back(launch);
            CHECK(cudaGetLastError());
            // An empty queue, so that a full one is not taken for a stall.
            begin = now_us();
            CHECK(cudaStreamSynchronize(stream));
            const double wait = now_us() - begin;
            if (during || freeing) {
                longest_launch = std::max(longest_launch, launch);
                longest_wait = std::max(longest_wait, wait);
                launches++;
            }
        }
    });
    while (!ready) {
    }

    // The first free of a round may come after a rest of the thread, the others follow at once.
    constexpr int COUNT = 9;
    const auto driver_free = entry<CUresult (*)(CUdeviceptr)>("cuMemFree", 12050);
    std::vector<double> running_firsts, firsts, driver_firsts, frees, mallocs, nexts, floors, nulls;
    double first_ever = -1;
    int overlapped = 0;
    for (int i = 0; i < rounds; i++) {
        void *blocks[COUNT];
        for (void *&block : blocks) {
            const double begin = now_us();
            CHECK(cudaMalloc(&block, 8 * MiB));
            mallocs.push_back(now_us() - begin);
        }
        kernel.start(200'000'000);
        freeing = true;
        const bool rested = i % 2, past_runtime = i % 4 == 3;
        if (rested) std::this_thread::sleep_for(std::chrono::milliseconds(2));
        for (void *block : blocks) {
            const double begin = now_us();
            const int status = past_runtime ? int(driver_free(reinterpret_cast<CUdeviceptr>(block))) : int(cudaFree(block));
            const double took = now_us() - begin;
            (block != blocks[0] ? frees : !rested ? running_firsts : past_runtime ? driver_firsts : firsts).push_back(took);
            CHECK(cudaError_t(status));
        }
        if (first_ever < 0) first_ever = running_firsts[0];
        overlapped += kernel.running();
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        freeing = false;
        // Never freed, so that every round must take new memory.
        void *kept;
        const double begin = now_us();
        CHECK(cudaMalloc(&kept, 8 * MiB));
        nexts.push_back(now_us() - begin);
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        int device;
        double slept = now_us();
        CHECK(cudaGetDevice(&device));
        floors.push_back(now_us() - slept);
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        slept = now_us();
        CHECK(cudaFree(nullptr));
        nulls.push_back(now_us() - slept);
        CHECK(cudaStreamSynchronize(kernel.stream));
    }
    done = true;
    launcher.join();
    for (auto *each : {&running_firsts, &firsts, &driver_firsts, &frees, &mallocs, &nexts, &floors, &nulls, &each_launch})
        std::sort(each->begin(), each->end());
    const auto median = [](const std::vector<double> &sorted) { return sorted.empty() ? -1 : sorted[sorted.size() / 2]; };
    std::printf("{\"first_ever_us\": %.2f, \"next_us_median\": %.2f, \"next_us_max\": %.2f, \"floor_us_median\": %.2f, ",
                first_ever, median(nexts), nexts.back(), median(floors));
    std::printf("\"running_first_us_median\": %.2f, \"running_first_us_max\": %.2f, ", median(running_firsts),
                running_firsts.back());
    std::printf("\"null_us_median\": %.2f, \"driver_first_us_median\": %.2f, \"launch_us_median\": %.3f, ", median(nulls),
                median(driver_firsts), median(each_launch));
    std::printf("\"first_us_median\": %.2f, \"first_us_max\": %.2f, \"free_us_median\": %.2f, \"free_us_max\": %.2f, "
                "\"malloc_us_median\": %.2f, \"returned_while_running\": %d, \"rounds\": %d, \"launches\": %ld, "
                "\"longest_launch_us\": %.1f, \"longest_wait_us\": %.1f}\n",
                median(firsts), firsts.back(), median(frees), frees.back(), median(mallocs), overlapped, rounds, launches,
                longest_launch, longest_wait);
}
