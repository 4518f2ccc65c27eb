// Question: does the job end as it would without the library, and with a report, whichever way it ends?
// Use: exit_order return | static | throw | thread | exit | fast
#include "common.cuh"

#include <unistd.h>

#include <stdexcept>
#include <string>
#include <thread>

// Frees after main, when the driver may be gone: the answer of cudaFree does not matter, the process must survive it.
struct Late {
    void *block = nullptr;
    ~Late() {
        if (block) cudaFree(block);
        cudaGetLastError();
    }
};
static Late late;

int main(int argc, char **argv) {
    const std::string way = argc > 1 ? argv[1] : "return";
    void *kept, *freed;
    CHECK(cudaMalloc(&kept, 3 * MiB));
    CHECK(cudaMalloc(&freed, 5 * MiB));
    CHECK(cudaFree(freed));
    CHECK(cudaMemset(kept, 1, 3 * MiB));
    CHECK(cudaDeviceSynchronize());
    std::printf("{\"way\": \"%s\"}\n", way.c_str());
    std::fflush(stdout);
    if (way == "static") late.block = kept;
    if (way == "throw") throw std::runtime_error("thrown on purpose");
    if (way == "thread") {
        std::thread leaver([] { std::exit(7); });
        leaver.join();
    }
    if (way == "exit") std::exit(9);
    if (way == "fast") _exit(11);
    return way == "static" ? 13 : 0;
}
