// What the programs share: checked calls, host clock, and the kernels that fill, count and wait.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                                                    \
    do {                                                                                               \
        cudaError_t status_ = (call);                                                                  \
        if (status_ != cudaSuccess) {                                                                  \
            std::fprintf(stderr, "%s:%d: %s: %s (%d)\n", __FILE__, __LINE__, #call,                    \
                         cudaGetErrorString(status_), int(status_));                                   \
            std::exit(3);                                                                              \
        }                                                                                              \
    } while (0)

constexpr size_t KiB = 1024, MiB = 1024 * KiB, GiB = 1024 * MiB;

inline double now_us() {
    using namespace std::chrono;
    return duration<double, std::micro>(steady_clock::now().time_since_epoch()).count();
}

[[maybe_unused]] static __global__ void fill(uint32_t *data, size_t count, uint32_t value) {
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x)
        data[i] = value;
}

// Adds the number of elements that differ from `value` to `*wrong`.
[[maybe_unused]] static __global__ void count_wrong(const uint32_t *data, size_t count, uint32_t value, unsigned long long *wrong) {
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x)
        if (data[i] != value) atomicAdd(wrong, 1ull);
}

// Says in `*started` (mapped host memory, may be null) that it runs, then keeps one thread busy.
[[maybe_unused]] static __global__ void spin(uint64_t nanoseconds, volatile int *started) {
    uint64_t begin, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    if (started) {
        *started = 1;
        __threadfence_system();
    }
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - begin < nanoseconds);
}

[[maybe_unused]] static __global__ void nothing() {}

inline int blocks_for(size_t count) {
    size_t blocks = (count + 255) / 256;
    return int(blocks < 1 ? 1 : blocks > 512 ? 512 : blocks);
}

inline cudaStream_t new_stream() {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

// A function of the driver as of a version, so that nothing links to it; without it the program says so and ends.
template <typename Function> Function entry(const char *name, unsigned version) {
    void *address = nullptr;
    cudaDriverEntryPointQueryResult found;
    CHECK(cudaGetDriverEntryPointByVersion(name, &address, version, cudaEnableDefault, &found));
    if (found != cudaDriverEntryPointSuccess || !address) {
        std::printf("{\"missing\": \"%s\"}\n", name);
        std::exit(0);
    }
    return reinterpret_cast<Function>(address);
}

// A kernel of the given length, and the certainty that it has begun.
struct LongKernel {
    cudaStream_t stream = new_stream();
    int *flag = nullptr, *device_flag = nullptr;

    LongKernel() {
        CHECK(cudaHostAlloc(&flag, sizeof(int), cudaHostAllocMapped));
        CHECK(cudaHostGetDevicePointer(&device_flag, flag, 0));
        start(1000);
        CHECK(cudaStreamSynchronize(stream));
    }
    void start(uint64_t nanoseconds) {
        *flag = 0;
        spin<<<1, 1, 0, stream>>>(nanoseconds, device_flag);
        CHECK(cudaGetLastError());
        while (*static_cast<volatile int *>(flag) == 0) {
        }
    }
    bool running() const { return cudaStreamQuery(stream) == cudaErrorNotReady; }
};
