// C25: four blocks of BYTES, filled with 1 to 4, are exported; does the peer read 1, 2, 3, 4? both|producer BYTES
// Then block 2 is freed and its size allocated again: what do the old and the new handle show?
#include "pair.h"

enum { BLOCKS = 4 };

static void consume(size_t bytes) {
    Peer producer = the_producer();
    CUdeviceptr opened[BLOCKS + 2] = {0};
    CUipcMemHandle handles[BLOCKS + 2];
    CUresult codes[BLOCKS + 2];
    start(0);
    hear(producer, codes, BLOCKS * sizeof *codes);
    hear(producer, handles, BLOCKS * sizeof *handles);
    for (int i = 0; i < BLOCKS; i++) {
        if (!codes[i]) codes[i] = cuIpcOpenMemHandle_v2(&opened[i], handles[i], 1);
        say("code", (unsigned long long)codes[i]);
        if (!codes[i]) say("right", (unsigned long long)simcuda_check(opened[i], bytes, (uint8_t)(i + 1)));
    }
    // Blocks of one segment can be the same opened allocation: each close must balance its open.
    for (int i = 0; i < BLOCKS; i++)
        if (!codes[i]) CHECK(cuIpcCloseMemHandle(opened[i]));
    tell_turn(producer);
    hear(producer, codes + BLOCKS, sizeof *codes);
    hear(producer, handles + BLOCKS, sizeof *handles);
    handles[BLOCKS + 1] = handles[1];
    say("old_code", (unsigned long long)cuIpcOpenMemHandle_v2(&opened[BLOCKS + 1], handles[BLOCKS + 1], 1));
    // The bytes of the new owner must not show through the old handle.
    if (opened[BLOCKS + 1]) say("old_shows_new", (unsigned long long)simcuda_check(opened[BLOCKS + 1], bytes, 9));
    if (opened[BLOCKS + 1]) CHECK(cuIpcCloseMemHandle(opened[BLOCKS + 1]));
    if (!codes[BLOCKS]) codes[BLOCKS] = cuIpcOpenMemHandle_v2(&opened[BLOCKS], handles[BLOCKS], 1);
    say("new_code", (unsigned long long)codes[BLOCKS]);
    if (!codes[BLOCKS]) say("new_right", (unsigned long long)simcuda_check(opened[BLOCKS], bytes, 9));
    tell_turn(producer);
}

int main(int argc, char **argv) {
    REQUIRE(argc > 2);
    size_t bytes = strtoull(argv[2], NULL, 0);
    if (!strcmp(argv[0], "consumer")) {
        consume(bytes);
        return 0;
    }
    Peer consumer = start_consumer(argv, !strcmp(argv[1], "both"));
    CUdeviceptr blocks[BLOCKS];
    CUipcMemHandle handles[BLOCKS];
    CUresult codes[BLOCKS];
    start(0);
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = take(bytes);
        CHECK(simcuda_kernel(0, 1, blocks[i], bytes, (uint8_t)(i + 1)));
    }
    CHECK(cuCtxSynchronize());
    for (int i = 0; i < BLOCKS; i++) codes[i] = cuIpcGetMemHandle(&handles[i], blocks[i]);
    tell(consumer, codes, sizeof codes);
    tell(consumer, handles, sizeof handles);
    await_turn(consumer);
    CHECK(cuMemFree_v2(blocks[1]));
    blocks[1] = take(bytes);
    CHECK(simcuda_kernel(0, 1, blocks[1], bytes, 9));
    CHECK(cuCtxSynchronize());
    codes[1] = cuIpcGetMemHandle(&handles[1], blocks[1]);
    tell(consumer, codes + 1, sizeof *codes);
    tell(consumer, handles + 1, sizeof *handles);
    await_turn(consumer);
    say("producer", (unsigned long long)getpid());
    say("consumer", (unsigned long long)consumer.pid);
    return end_of(consumer);
}
