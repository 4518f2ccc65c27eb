// C13: a block of 64 MiB is exported once; the peer opens and closes it four times, closes once too often, or is killed
// while it has it open. balanced|unbalanced|killed
#include "pair.h"

static void consume(const char *how) {
    Peer producer = the_producer();
    CUipcMemHandle handle;
    CUdeviceptr opened = 0;
    start(0);
    hear(producer, &handle, sizeof handle);
    for (int i = 0; i < 4; i++) {
        CHECK(cuIpcOpenMemHandle_v2(&opened, handle, 1));
        REQUIRE(simcuda_check(opened, 64 * MiB, 7));
        if (!strcmp(how, "killed")) {
            tell_turn(producer);
            raise(SIGKILL);
        }
        CHECK(cuIpcCloseMemHandle(opened));
    }
    if (!strcmp(how, "unbalanced")) say("fifth", (unsigned long long)cuIpcCloseMemHandle(opened));
    tell_turn(producer);
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "balanced";
    CUipcMemHandle handle;
    size_t first, last, total;
    if (!strcmp(argv[0], "consumer")) {
        consume(how);
        return 0;
    }
    Peer consumer = start_consumer(argv, 1);
    start(0);
    CHECK(cuMemGetInfo_v2(&first, &total));
    CUdeviceptr block = take(67108864);
    CHECK(simcuda_kernel(0, 1, block, 64 * MiB, 7));
    CHECK(cuCtxSynchronize());
    CHECK(cuIpcGetMemHandle(&handle, block));
    tell(consumer, &handle, sizeof handle);
    await_turn(consumer);
    say("status", (unsigned long long)(unsigned)end_of(consumer));
    CHECK(cuMemFree_v2(block));
    CHECK(cuMemGetInfo_v2(&last, &total));
    say("back", first == last);
    say("driver_frees", simcuda_calls("cuMemFree_v2"));
    say("producer", (unsigned long long)getpid());
    say("consumer", (unsigned long long)consumer.pid);
    return 0;
}
