// Question: what does the bare driver answer to an IPC handle that was altered, and where? (A pool that marks its handles
// would have processes without it refuse them.) A few alterations of whole parts are opened and read. Each byte altered
// alone is only opened: a copy from what such a handle opened ended with a launch failure, after which a process' context
// is lost (seen on an H200, driver 580.159).
#include "common.cuh"
#include "pair.cuh"

#include <functional>

using Change = std::function<void(char *)>;

// -1: opened and the right bytes; -2: opened, other bytes; -3: opened, not read; -4: the peer died; 1000 and more: opened,
// then the copy failed with that error less 1000; else the error of opening.
static int look(cudaIpcMemHandle_t handle, bool read) {
    void *data = nullptr;
    const cudaError_t status = cudaIpcOpenMemHandle(&data, handle, cudaIpcMemLazyEnablePeerAccess);
    if (status != cudaSuccess) {
        cudaGetLastError();
        return int(status);
    }
    uint32_t first = 0;
    const cudaError_t copied = read ? cudaMemcpy(&first, data, sizeof first, cudaMemcpyDeviceToHost) : cudaSuccess;
    if (copied != cudaSuccess) return 1000 + int(copied);
    cudaIpcCloseMemHandle(data);
    cudaGetLastError();
    return !read ? -3 : first == 0xc0ffee ? -1 : -2;
}

// Asks a peer; one whose context is lost, or that died, is replaced by a new one.
struct Asker {
    const char *program;
    cudaIpcMemHandle_t handle;
    Peer peer{};

    int ask(bool read, const Change &change) {
        if (!peer.child) peer = start_peer(program, "same");
        cudaIpcMemHandle_t altered = handle;
        change(altered.reserved);
        peer.put(read ? 2 : 1);
        peer.put(altered);
        int answer = -4;
        if (!peer.try_get(answer) || answer >= 1000) end();
        return answer;
    }
    void end() {
        close(peer.out);
        close(peer.in);
        peer.wait();
        peer = Peer{};
    }
};

static Change flip(int from, int to) {
    return [=](char *bytes) {
        for (int i = from; i < to; i++) bytes[i] = char(bytes[i] ^ 0x5a);
    };
}

// What a pool does to the handle of a block 512 bytes into its segment.
static void veil(char *bytes) {
    flip(0, 56)(bytes);
    std::memcpy(bytes + 56, "cnt1\1\0\0\0", 8);
}

int main(int argc, char **argv) {
    Peer parent;
    if (is_peer(argc, argv, parent)) {
        CHECK(cudaFree(nullptr));
        for (int wanted; parent.try_get(wanted);) parent.put(look(parent.get<cudaIpcMemHandle_t>(), wanted == 2));
        return 0;
    }
    Asker asker{argv[0], {}};
    uint32_t *block;
    CHECK(cudaMalloc(&block, MiB));
    fill<<<64, 256>>>(block, MiB / 4, 0xc0ffee);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaIpcGetMemHandle(&asker.handle, block));

    const struct {
        const char *name;
        Change change;
    } parts[] = {{"untouched", flip(0, 0)}, {"veiled", veil},         {"last_8", flip(56, 64)}, {"first_8", flip(0, 8)},
                 {"first_16", flip(0, 16)}, {"first_56", flip(0, 56)}, {"all", flip(0, 64)}};
    std::printf("{\"parts\": {");
    for (const auto &part : parts) {
        std::printf("%s\"%s\": %d", &part == parts ? "" : ", ", part.name, asker.ask(true, part.change));
        std::fflush(stdout);
    }
    std::printf("}, \"each_byte\": [");
    for (int i = 0; i < 64; i++) {
        std::printf("%s%d", i ? ", " : "", asker.ask(false, flip(i, i + 1)));
        std::fflush(stdout);
    }
    std::printf("], \"handle\": \"");
    for (int i = 0; i < 64; i++) std::printf("%02x", uint8_t(asker.handle.reserved[i]));
    std::printf("\"}\n");
    asker.end();
    return 0;
}
