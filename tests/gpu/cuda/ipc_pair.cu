// Question: does a second process that opens an IPC handle see exactly the bytes of the exported block, for small, odd
// and large sizes, whether or not it runs under the library; and what does a handle give whose block was freed and whose
// size was allocated anew: an error, or the new owner's bytes (as the bare driver does in some cases, and a pool never beyond
// those)?
// Use: ipc_pair [same | none | PATH]: the peer's preload.
#include "common.cuh"
#include "pair.cuh"

#include <vector>

static const size_t sizes[] = {MiB, MiB, MiB, MiB, 72, 160, 4096, 1, 65, 123, 2097275, 2267136, 16789561};
constexpr int COUNT = sizeof sizes / sizeof *sizes;

__global__ void write_pattern(uint8_t *data, size_t bytes, uint32_t seed) {
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < bytes; i += size_t(gridDim.x) * blockDim.x)
        data[i] = uint8_t(seed * 37 + i + (i >> 8));
}

static void pattern(void *data, size_t bytes, uint32_t seed) {
    write_pattern<<<blocks_for(bytes), 256>>>(static_cast<uint8_t *>(data), bytes, seed);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
}

// 0: every byte has the pattern of `seed`; 1: not; 1000 + code: the handle could not be opened or read.
static int look(cudaIpcMemHandle_t handle, size_t bytes, uint32_t seed) {
    void *data = nullptr;
    cudaError_t status = cudaIpcOpenMemHandle(&data, handle, cudaIpcMemLazyEnablePeerAccess);
    if (status != cudaSuccess) {
        cudaGetLastError();
        return 1000 + int(status);
    }
    std::vector<uint8_t> host(bytes);
    status = cudaMemcpy(host.data(), data, bytes, cudaMemcpyDeviceToHost);
    CHECK(cudaIpcCloseMemHandle(data));
    if (status != cudaSuccess) return 1000 + int(status);
    for (size_t i = 0; i < bytes; i++)
        if (host[i] != uint8_t(seed * 37 + i + (i >> 8))) return 1;
    return 0;
}

static int consume(const Peer &peer) {
    CHECK(cudaFree(nullptr));
    while (true) {
        const auto bytes = peer.get<uint64_t>();
        if (!bytes) return 0;
        const auto seed = peer.get<uint32_t>();
        peer.put(look(peer.get<cudaIpcMemHandle_t>(), bytes, seed));
    }
}

static int ask(const Peer &peer, const cudaIpcMemHandle_t &handle, uint64_t bytes, uint32_t seed) {
    peer.put(bytes);
    peer.put(seed);
    peer.put(handle);
    return peer.get<int>();
}

static const char *word(int answer) { return answer == 0 ? "right" : answer == 1 ? "wrong" : "error"; }

// The block was exported, freed, and its size allocated again with other bytes.
static void stale(const Peer &peer, const char *name, size_t bytes, bool opened_before) {
    void *old_block, *new_block;
    cudaIpcMemHandle_t handle;
    CHECK(cudaMalloc(&old_block, bytes));
    pattern(old_block, bytes, 201);
    CHECK(cudaIpcGetMemHandle(&handle, old_block));
    if (opened_before) ask(peer, handle, bytes, 201);
    CHECK(cudaFree(old_block));
    CHECK(cudaMalloc(&new_block, bytes));
    pattern(new_block, bytes, 202);
    const int as_new = ask(peer, handle, bytes, 202);
    const int as_old = as_new >= 1000 ? as_new : ask(peer, handle, bytes, 201);
    std::printf("{\"case\": \"%s\", \"bytes\": %zu, \"result\": \"%s\", \"code\": %d, \"same_address\": %s}", name, bytes,
                as_new == 0 ? "new owner's bytes" : as_new >= 1000 ? "error" : as_old == 0 ? "old bytes" : "other bytes",
                as_new >= 1000 ? as_new - 1000 : 0, old_block == new_block ? "true" : "false");
    CHECK(cudaFree(new_block));
}

int main(int argc, char **argv) {
    Peer peer;
    if (is_peer(argc, argv, peer)) return consume(peer);
    peer = start_peer(argv[0], argc > 1 ? argv[1] : "same");

    // Blocks of the same sizes have come and gone, so that a pool serves the exported ones from its cache.
    for (int round = 0; round < 3; round++) {
        void *blocks[COUNT];
        for (int i = 0; i < COUNT; i++) CHECK(cudaMalloc(&blocks[i], sizes[i]));
        for (int i = 0; i < COUNT; i++) CHECK(cudaFree(blocks[i]));
    }
    void *blocks[COUNT];
    cudaIpcMemHandle_t handles[COUNT];
    for (int i = 0; i < COUNT; i++) {
        CHECK(cudaMalloc(&blocks[i], sizes[i]));
        pattern(blocks[i], sizes[i], uint32_t(i + 1));
    }
    std::printf("{\"blocks\": [");
    for (int i = 0; i < COUNT; i++) {
        const cudaError_t status = cudaIpcGetMemHandle(&handles[i], blocks[i]);
        const int answer = status == cudaSuccess ? ask(peer, handles[i], sizes[i], uint32_t(i + 1)) : 1000 + int(status);
        std::printf("%s{\"bytes\": %zu, \"result\": \"%s\", \"code\": %d, \"exported\": %s}", i ? ", " : "", sizes[i],
                    word(answer), answer >= 1000 ? answer - 1000 : 0, status == cudaSuccess ? "true" : "false");
        cudaGetLastError();
    }
    std::printf("], \"stale\": [");
    stale(peer, "opened before", MiB, true);
    std::printf(", ");
    stale(peer, "never opened", MiB, false);
    std::printf(", ");
    stale(peer, "small", 4096, false);
    std::printf(", ");
    stale(peer, "large", 16 * MiB, true);
    std::printf("]}\n");
    for (int i = 0; i < COUNT; i++) CHECK(cudaFree(blocks[i]));
    peer.put(uint64_t(0));
    return peer.wait();
}
