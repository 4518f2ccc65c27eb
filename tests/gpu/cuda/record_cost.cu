// Question: what does cuCtxRecordEvent cost while the device is idle and while a kernel runs? Asked of the bare driver:
// it is what a free under the pool has to pay.
#include "common.cuh"

#include <cuda.h>
#include <algorithm>
#include <vector>

using RecordEvent = CUresult (*)(CUcontext, CUevent);
using CurrentContext = CUresult (*)(CUcontext *);

template <typename Function> static Function entry(const char *name, unsigned version) {
    void *address = nullptr;
    cudaDriverEntryPointQueryResult found;
    CHECK(cudaGetDriverEntryPointByVersion(name, &address, version, cudaEnableDefault, &found));
    if (found != cudaDriverEntryPointSuccess || !address) {
        std::printf("{\"missing\": \"%s\"}\n", name);
        std::exit(0);
    }
    return reinterpret_cast<Function>(address);
}

int main() {
    LongKernel kernel;
    const auto record = entry<RecordEvent>("cuCtxRecordEvent", 12050);
    CUcontext context;
    if (entry<CurrentContext>("cuCtxGetCurrent", 4000)(&context) != CUDA_SUCCESS) return 3;
    std::vector<cudaEvent_t> events(2000);
    for (auto &event : events) CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));

    // Each event is used once: a record into an event whose earlier record is pending may cost more.
    const auto cost = [&](size_t from, double &longest) {
        std::vector<double> each;
        for (size_t i = from; i < from + 1000; i++) {
            const double begin = now_us();
            const CUresult status = record(context, events[i]);
            each.push_back(now_us() - begin);
            if (status != CUDA_SUCCESS) {
                std::fprintf(stderr, "cuCtxRecordEvent: %d\n", int(status));
                std::exit(3);
            }
        }
        std::sort(each.begin(), each.end());
        longest = each.back();
        return each[each.size() / 2];
    };
    double idle_max, busy_max;
    const double idle = cost(0, idle_max);
    kernel.start(200'000'000);
    const double busy = cost(1000, busy_max);
    const bool overlapped = kernel.running();
    CHECK(cudaDeviceSynchronize());
    std::printf("{\"idle_us\": %.3f, \"idle_us_max\": %.1f, \"busy_us\": %.3f, \"busy_us_max\": %.1f, \"overlapped\": %s}\n",
                idle, idle_max, busy, busy_max, overlapped ? "true" : "false");
}
