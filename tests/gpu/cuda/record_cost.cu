// Question: what does cuCtxRecordEvent cost while the device is idle and while a kernel runs, when the thread has rested
// before it, and when another thread launches meanwhile? Asked of the bare driver: it is what a free under the pool has to
// pay. And is an event that was recorded on an idle device done at once? Last, all that a hit of the pool asks of the driver.
#include "common.cuh"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

using RecordEvent = CUresult (*)(CUcontext, CUevent);
using CurrentContext = CUresult (*)(CUcontext *);

int main() {
    LongKernel kernel;
    const auto record = entry<RecordEvent>("cuCtxRecordEvent", 12050);
    CUcontext context;
    if (entry<CurrentContext>("cuCtxGetCurrent", 4000)(&context) != CUDA_SUCCESS) return 3;
    std::printf("{");
    int overlapped = 0, done_at_once = 0;

    // Each event is used once: a record into an event whose earlier record is pending may cost more.
    const auto cost = [&](const char *name, int count, bool busy, bool rested) {
        std::vector<cudaEvent_t> events(count);
        for (auto &event : events) CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
        if (busy) kernel.start(200'000'000);
        std::vector<double> each;
        for (auto event : events) {
            if (rested) std::this_thread::sleep_for(std::chrono::milliseconds(2));
            const double begin = now_us();
            const CUresult status = record(context, event);
            each.push_back(now_us() - begin);
            if (status != CUDA_SUCCESS) {
                std::fprintf(stderr, "cuCtxRecordEvent: %d\n", int(status));
                std::exit(3);
            }
            if (!busy) done_at_once += cudaEventQuery(event) == cudaSuccess;
        }
        overlapped += busy && kernel.running();
        CHECK(cudaDeviceSynchronize());
        for (auto event : events) CHECK(cudaEventDestroy(event));
        std::sort(each.begin(), each.end());
        std::printf("\"%s_us\": %.3f, \"%s_us_max\": %.1f, ", name, each[each.size() / 2], name, each.back());
    };
    cost("idle", 1000, false, false);

    // For a pair of malloc and free: the context, twice more for the event, one record, one query in relaxed mode.
    const auto query = entry<CUresult (*)(CUevent)>("cuEventQuery", 12050);
    const auto current = entry<CurrentContext>("cuCtxGetCurrent", 4000);
    const auto exchange = entry<CUresult (*)(CUstreamCaptureMode *)>("cuThreadExchangeStreamCaptureMode", 12050);
    cudaEvent_t event;
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    std::vector<double> batches;
    for (int batch = 0; batch < 21; batch++) {
        const double begin = now_us();
        for (int i = 0; i < 5000; i++) {
            CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
            for (int time = 0; time < 3; time++) current(&context);
            record(context, event);
            exchange(&mode);
            query(event);
            exchange(&mode);
        }
        batches.push_back((now_us() - begin) / 5000);
    }
    CHECK(cudaEventDestroy(event));
    std::sort(batches.begin(), batches.end());
    std::printf("\"pair_us\": %.3f, ", batches[batches.size() / 2]);

    cost("busy", 1000, true, false);
    cost("busy_rested", 40, true, true);

    std::atomic<bool> stop{false}, ready{false};
    std::thread neighbour([&] {
        cudaStream_t stream = new_stream();
        while (!stop) {
            nothing<<<1, 1, 0, stream>>>();
            CHECK(cudaStreamSynchronize(stream));
            ready = true;
        }
    });
    while (!ready) {
    }
    cost("busy_neighbour", 1000, true, false);
    cost("busy_rested_neighbour", 40, true, true);
    stop = true;
    neighbour.join();
    std::printf("\"overlapped\": %d, \"done_at_once\": %d}\n", overlapped, done_at_once);
}
