// The producer frees a block that the peer has open and allocates again: does the peer ever see the new owner's bytes? BYTES
#include "pair.h"

static void consume(size_t bytes) {
    Peer producer = the_producer();
    CUipcMemHandle handle;
    CUdeviceptr opened;
    start(0);
    hear(producer, &handle, sizeof handle);
    CHECK(cuIpcOpenMemHandle_v2(&opened, handle, 1));
    tell_turn(producer);
    await_turn(producer);
    say("shows_new", (unsigned long long)simcuda_check(opened, bytes, 9));
    CHECK(cuIpcCloseMemHandle(opened));
    tell_turn(producer);
}

int main(int argc, char **argv) {
    size_t bytes = argc > 1 ? strtoull(argv[1], NULL, 0) : 4 * MiB;
    CUipcMemHandle handle;
    if (!strcmp(argv[0], "consumer")) {
        consume(bytes);
        return 0;
    }
    Peer consumer = start_consumer(argv, 1);
    start(0);
    CUdeviceptr block = take(bytes);
    CHECK(simcuda_kernel(0, 1, block, bytes, 7));
    CHECK(cuCtxSynchronize());
    CHECK(cuIpcGetMemHandle(&handle, block));
    tell(consumer, &handle, sizeof handle);
    await_turn(consumer);
    CHECK(cuMemFree_v2(block));
    CHECK(cuCtxSynchronize());
    for (int i = 0; i < 4; i++) {
        CUdeviceptr next = take(bytes);
        CHECK(simcuda_kernel(0, 1, next, bytes, 9));
    }
    CHECK(cuCtxSynchronize());
    tell_turn(consumer);
    await_turn(consumer);
    return end_of(consumer);
}
