// Question: does a stream capture survive, in each mode, while a second thread allocates and frees, and does the graph
// compute the right thing? In global mode the second thread is asked both ways: having exchanged its own capture mode to
// relaxed (as PyTorch does), and not ("rude": the bare driver breaks the capture then, the pool may only be kinder).
#include "common.cuh"

#include <atomic>
#include <string>
#include <thread>

__global__ void add(uint32_t *data, size_t count, uint32_t value) {
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x)
        data[i] += value;
}

static void churn(std::atomic<bool> &begun, std::atomic<bool> &stop, bool relaxed, long &errors, long &pairs) {
    cudaStream_t stream = new_stream();
    if (relaxed) {
        cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
        CHECK(cudaThreadExchangeStreamCaptureMode(&mode));
    }
    const size_t sizes[] = {512, 40 * KiB, MiB, 3 * MiB, 20 * MiB, 64 * MiB};
    for (long i = 0; !stop; i++) {
        // Every 64th request has a size never seen before, so that the pool must go to the driver.
        const size_t size = i % 64 == 63 ? 70 * MiB + size_t(i) * 2 * MiB / 64 : sizes[i % 6];
        uint32_t *block = nullptr;
        if (cudaMalloc(&block, size) != cudaSuccess) {
            errors++;
            cudaGetLastError();
        } else {
            fill<<<blocks_for(size / 4), 256, 0, stream>>>(block, size / 4, uint32_t(i));
            if (cudaFree(block) != cudaSuccess) errors++;
            cudaGetLastError();
            pairs++;
        }
        begun = true;
        if (i % 64 == 63) std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    cudaStreamSynchronize(stream);
    cudaGetLastError();
}

static void one(const char *name, cudaStreamCaptureMode mode, bool relaxed_neighbour, bool last) {
    const size_t count = MiB;
    cudaStream_t stream = new_stream();
    uint32_t *data;
    CHECK(cudaMalloc(&data, count * 4));
    CHECK(cudaMemset(data, 0, count * 4));
    CHECK(cudaDeviceSynchronize());

    std::atomic<bool> begun{false}, stop{false};
    long errors = 0, pairs = 0;
    std::thread neighbour(churn, std::ref(begun), std::ref(stop), relaxed_neighbour, std::ref(errors), std::ref(pairs));
    while (!begun) {
    }
    // Blocks whose kernels still run when the capture begins.
    for (int i = 0; i < 4; i++) {
        uint32_t *pending;
        CHECK(cudaMalloc(&pending, 8 * MiB));
        fill<<<64, 256, 0, stream>>>(pending, 2 * MiB, 1);
        CHECK(cudaFree(pending));
    }
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    CHECK(cudaStreamBeginCapture(stream, mode));
    int launch_errors = 0;
    for (uint32_t i = 1; i <= 50; i++) {
        add<<<256, 256, 0, stream>>>(data, count, i);
        launch_errors += cudaGetLastError() != cudaSuccess;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
    const bool valid = ended == cudaSuccess && graph && launch_errors == 0;
    cudaGetLastError();
    unsigned long long *wrong, result = 0;
    if (valid) {
        CHECK(cudaGraphInstantiate(&executable, graph, 0));
        for (int i = 0; i < 3; i++) CHECK(cudaGraphLaunch(executable, stream));
        CHECK(cudaStreamSynchronize(stream));
    }
    stop = true;
    neighbour.join();
    if (valid) {
        CHECK(cudaMalloc(&wrong, sizeof *wrong));
        CHECK(cudaMemset(wrong, 0, sizeof *wrong));
        CHECK(cudaDeviceSynchronize());
        count_wrong<<<256, 256, 0, stream>>>(data, count, 3 * 50 * 51 / 2, wrong);
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaMemcpy(&result, wrong, sizeof result, cudaMemcpyDeviceToHost));
        CHECK(cudaFree(wrong));
        CHECK(cudaGraphExecDestroy(executable));
        CHECK(cudaGraphDestroy(graph));
    }
    CHECK(cudaFree(data));
    std::printf("\"%s\": {\"valid\": %s, \"end_status\": %d, \"wrong\": %llu, \"neighbour_errors\": %ld, \"neighbour_pairs\": %ld}%s",
                name, valid ? "true" : "false", int(ended), result, errors, pairs, last ? "" : ", ");
}

int main() {
    CHECK(cudaFree(nullptr));
    // Kernels are loaded at their first launch, which no capture allows.
    nothing<<<1, 1>>>();
    add<<<1, 1>>>(nullptr, 0, 0);
    fill<<<1, 1>>>(nullptr, 0, 0);
    count_wrong<<<1, 1>>>(nullptr, 0, 0, nullptr);
    CHECK(cudaDeviceSynchronize());
    std::printf("{");
    one("thread_local", cudaStreamCaptureModeThreadLocal, false, false);
    one("relaxed", cudaStreamCaptureModeRelaxed, false, false);
    one("global", cudaStreamCaptureModeGlobal, true, false);
    one("global_rude", cudaStreamCaptureModeGlobal, false, true);
    std::printf("}\n");
}
