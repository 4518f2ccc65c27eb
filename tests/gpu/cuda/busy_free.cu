// Question: how long does cudaFree take while a kernel of 200 ms runs on a non-blocking stream, and how long is a launch
// of another thread on another stream held up meanwhile?
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

    std::vector<double> frees, mallocs;
    int overlapped = 0;
    for (int i = 0; i < rounds; i++) {
        void *block;
        double begin = now_us();
        CHECK(cudaMalloc(&block, 8 * MiB));
        mallocs.push_back(now_us() - begin);
        kernel.start(200'000'000);
        freeing = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        begin = now_us();
        const cudaError_t status = cudaFree(block);
        frees.push_back(now_us() - begin);
        CHECK(status);
        overlapped += kernel.running();
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        freeing = false;
        CHECK(cudaStreamSynchronize(kernel.stream));
    }
    done = true;
    launcher.join();
    std::sort(frees.begin(), frees.end());
    std::sort(mallocs.begin(), mallocs.end());
    std::printf("{\"free_us_median\": %.2f, \"free_us_max\": %.2f, \"malloc_us_median\": %.2f, \"returned_while_running\": %d, "
                "\"rounds\": %d, \"launches\": %ld, \"longest_launch_us\": %.1f, \"longest_wait_us\": %.1f}\n",
                frees[frees.size() / 2], frees.back(), mallocs[mallocs.size() / 2], overlapped, rounds, launches,
                longest_launch, longest_wait);
}
