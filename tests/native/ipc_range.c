// A library shares a block the way UCX does (range of the pointer, handle of the pointer) or NCCL (handle of the range's start):
// the peer adds the distance between pointer and start to what it opened. Whose bytes does it see? pointer|start
#include "pair.h"

static const size_t bytes = 65536;

static void consume(void) {
    Peer producer = the_producer();
    CUipcMemHandle handle;
    uint64_t distance;
    CUdeviceptr opened;
    start(0);
    hear(producer, &handle, sizeof handle);
    hear(producer, &distance, sizeof distance);
    CHECK(cuIpcOpenMemHandle_v2(&opened, handle, 1));
    say("right", (unsigned long long)simcuda_check(opened + distance, bytes / 2, 3));
    tell_turn(producer);
}

int main(int argc, char **argv) {
    CUipcMemHandle handle;
    CUdeviceptr blocks[4], base;
    size_t length;
    if (!strcmp(argv[0], "consumer")) {
        consume();
        return 0;
    }
    Peer consumer = start_consumer(argv, 1);
    start(0);
    for (int i = 0; i < 4; i++) {
        blocks[i] = take(bytes);
        CHECK(simcuda_kernel(0, 1, blocks[i], bytes, i + 1));
    }
    CHECK(cuCtxSynchronize());
    CUdeviceptr inner = blocks[2] + 4096;
    CHECK(cuMemGetAddressRange_v2(&base, &length, inner));
    say("is_base", base == blocks[2]);
    say("length", length);
    CHECK(cuIpcGetMemHandle(&handle, argc > 1 && !strcmp(argv[1], "start") ? base : inner));
    uint64_t distance = inner - base;
    tell(consumer, &handle, sizeof handle);
    tell(consumer, &distance, sizeof distance);
    await_turn(consumer);
    return 0;
}
