// Question: how much memory does another process see as free, over time? Prints one line every 10 ms (seconds of
// CLOCK_MONOTONIC, bytes) until its standard input closes.
#include "common.cuh"

#include <poll.h>

int main() {
    size_t free, total;
    pollfd input{0, POLLIN, 0};
    do {
        CHECK(cudaMemGetInfo(&free, &total));
        std::printf("{\"t\": %.4f, \"free\": %zu}\n", now_us() / 1e6, free);
        std::fflush(stdout);
    } while (poll(&input, 1, 10) == 0);
}
