// Question: while a stream captures in global mode, which calls of a second thread does the capture survive, when that
// thread has exchanged its own capture mode to relaxed, and when it has not? And what do events answer to a thread that has
// no context? Asked of the bare driver: they are the calls that a pool makes on the job's and on its own thread.
#include "common.cuh"

#include <atomic>
#include <functional>
#include <thread>

static CUcontext context;
static CUevent done;
static CUdeviceptr block, fresh_block;
static CUstream fresh_stream;

struct Case {
    const char *name;
    std::function<CUresult()> call;
};

static void one(const Case &asked, bool relaxed, bool first) {
    cudaStream_t stream = new_stream();
    std::atomic<int> stage{0};
    CUresult code = CUDA_ERROR_UNKNOWN;
    fresh_block = 0;
    fresh_stream = nullptr;
    CHECK(cudaMalloc(reinterpret_cast<void **>(&block), MiB));
    std::thread other([&] {
        entry<CUresult (*)(CUcontext)>("cuCtxSetCurrent", 4000)(context);
        cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
        if (relaxed) CHECK(cudaThreadExchangeStreamCaptureMode(&mode));
        stage = 1;
        while (stage != 2) {
        }
        code = asked.call();
        stage = 3;
    });
    while (stage != 1) {
    }
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    nothing<<<1, 1, 0, stream>>>();
    stage = 2;
    while (stage != 3) {
    }
    nothing<<<1, 1, 0, stream>>>();
    const bool launched = cudaGetLastError() == cudaSuccess;
    const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
    cudaGetLastError();
    other.join();
    std::printf("%s\"%s\": {\"code\": %d, \"valid\": %s, \"end_status\": %d}", first ? "" : ", ", asked.name, int(code),
                launched && ended == cudaSuccess && graph ? "true" : "false", int(ended));
    std::fflush(stdout);
    CHECK(cudaDeviceSynchronize());
    if (graph) cudaGraphDestroy(graph);
    if (fresh_block) cudaFree(reinterpret_cast<void *>(fresh_block));
    if (fresh_stream) cudaStreamDestroy(fresh_stream);
    if (block) cudaFree(reinterpret_cast<void *>(block));
    cudaStreamDestroy(stream);
    cudaGetLastError();
}

int main() {
    LongKernel kernel;
    nothing<<<1, 1>>>();
    CHECK(cudaDeviceSynchronize());
    if (entry<CUresult (*)(CUcontext *)>("cuCtxGetCurrent", 4000)(&context) != CUDA_SUCCESS) return 3;
    CHECK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
    CHECK(cudaEventRecord(done, kernel.stream));
    CHECK(cudaDeviceSynchronize());

    const auto allocate = entry<CUresult (*)(CUdeviceptr *, size_t)>("cuMemAlloc", 12050);
    const auto release = entry<CUresult (*)(CUdeviceptr)>("cuMemFree", 12050);
    const auto query = entry<CUresult (*)(CUevent)>("cuEventQuery", 12050);
    const auto wait = entry<CUresult (*)(CUevent)>("cuEventSynchronize", 12050);
    const auto wait_all = entry<CUresult (*)()>("cuCtxSynchronize", 12050);
    const auto make_stream = entry<CUresult (*)(CUstream *, unsigned)>("cuStreamCreate", 12050);
    const auto memory = entry<CUresult (*)(size_t *, size_t *)>("cuMemGetInfo", 12050);
    const auto record = entry<CUresult (*)(CUcontext, CUevent)>("cuCtxRecordEvent", 12050);
    const auto make_event = entry<CUresult (*)(CUevent *, unsigned)>("cuEventCreate", 12050);
    CUevent fresh_event;
    CHECK(cudaEventCreateWithFlags(&fresh_event, cudaEventDisableTiming));
    CUevent made = nullptr;
    size_t free, total;
    const Case cases[] = {
        {"none", [] { return CUDA_SUCCESS; }},
        {"cuMemAlloc", [&] { return allocate(&fresh_block, MiB); }},
        {"cuMemFree",
         [&] {
             const CUresult code = release(block);
             if (code == CUDA_SUCCESS) block = 0;
             return code;
         }},
        {"cuEventQuery", [&] { return query(done); }},
        {"cuEventSynchronize", [&] { return wait(done); }},
        {"cuCtxSynchronize", [&] { return wait_all(); }},
        {"cuStreamCreate", [&] { return make_stream(&fresh_stream, CU_STREAM_NON_BLOCKING); }},
        {"cuMemGetInfo", [&] { return memory(&free, &total); }},
        {"cuEventCreate", [&] { return make_event(&made, CU_EVENT_DISABLE_TIMING); }},
        {"cuCtxRecordEvent", [&] { return record(context, fresh_event); }},
    };
    std::printf("{");
    for (bool relaxed : {true, false}) {
        std::printf("\"%s\": {", relaxed ? "relaxed" : "own_mode");
        for (const Case &asked : cases) one(asked, relaxed, &asked == cases);
        std::printf("}, ");
    }

    // A thread without a context: an event that is done, one behind a running kernel, and a record.
    CUevent pending, recorded;
    CHECK(cudaEventCreateWithFlags(&pending, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&recorded, cudaEventDisableTiming));
    kernel.start(100'000'000);
    CHECK(cudaEventRecord(pending, kernel.stream));
    int codes[5];
    CUcontext current = nullptr;
    std::thread bare([&] {
        entry<CUresult (*)(CUcontext *)>("cuCtxGetCurrent", 4000)(&current);
        codes[0] = query(done);
        codes[1] = query(pending);
        codes[2] = record(context, recorded);
        codes[3] = query(recorded);
        codes[4] = wait(done);
    });
    bare.join();
    const bool overlapped = kernel.running();
    CHECK(cudaDeviceSynchronize());
    std::printf("\"no_context\": {\"has_none\": %s, \"overlapped\": %s, \"query_done\": %d, \"query_pending\": %d, "
                "\"record\": %d, \"query_recorded\": %d, \"wait_done\": %d}}\n",
                current ? "false" : "true", overlapped ? "true" : "false", codes[0], codes[1], codes[2], codes[3], codes[4]);
}
