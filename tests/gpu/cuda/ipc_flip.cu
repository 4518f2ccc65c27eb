// Question: what does the bare driver answer to an IPC handle that was altered, and where? (A pool that marks its handles
// would have processes without it refuse them.) Each byte of the handle is altered alone; then the first 8, and all.
#include "common.cuh"
#include "pair.cuh"

// -1: opened and the right bytes; -2: opened, other bytes; else the error.
static int look(cudaIpcMemHandle_t handle) {
    void *data = nullptr;
    const cudaError_t status = cudaIpcOpenMemHandle(&data, handle, cudaIpcMemLazyEnablePeerAccess);
    if (status != cudaSuccess) {
        cudaGetLastError();
        return int(status);
    }
    uint32_t first = 0;
    CHECK(cudaMemcpy(&first, data, sizeof first, cudaMemcpyDeviceToHost));
    CHECK(cudaIpcCloseMemHandle(data));
    return first == 0xc0ffee ? -1 : -2;
}

static int ask(const Peer &peer, cudaIpcMemHandle_t handle, int from, int to) {
    for (int i = from; i < to; i++) handle.reserved[i] = char(handle.reserved[i] ^ 0x5a);
    peer.put(1);
    peer.put(handle);
    return peer.get<int>();
}

int main(int argc, char **argv) {
    Peer peer;
    if (is_peer(argc, argv, peer)) {
        CHECK(cudaFree(nullptr));
        while (peer.get<int>()) peer.put(look(peer.get<cudaIpcMemHandle_t>()));
        return 0;
    }
    peer = start_peer(argv[0], "same");
    uint32_t *block;
    cudaIpcMemHandle_t handle;
    CHECK(cudaMalloc(&block, MiB));
    fill<<<64, 256>>>(block, MiB / 4, 0xc0ffee);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaIpcGetMemHandle(&handle, block));
    std::printf("{\"untouched\": %d, ", ask(peer, handle, 0, 0));
    std::printf("\"first_8\": %d, \"first_16\": %d, \"last_8\": %d, \"all\": %d, \"each_byte\": [", ask(peer, handle, 0, 8),
                ask(peer, handle, 0, 16), ask(peer, handle, 56, 64), ask(peer, handle, 0, 64));
    for (int i = 0; i < 64; i++) std::printf("%s%d", i ? ", " : "", ask(peer, handle, i, i + 1));
    std::printf("], \"handle\": \"");
    for (int i = 0; i < 64; i++) std::printf("%02x", uint8_t(handle.reserved[i]));
    std::printf("\"}\n");
    peer.put(0);
    return peer.wait();
}
