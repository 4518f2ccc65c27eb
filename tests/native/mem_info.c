// What does cuMemGetInfo say: at first, with 4 GiB live, with 4 GiB cached, with 8 GiB of addresses reserved?
#include "cu.h"

static void ask(const char *when) {
    size_t free = 42, total = 42;
    char name[64];
    CHECK(cuMemGetInfo_v2(&free, &total));
    REQUIRE(free <= total);
    snprintf(name, sizeof name, "free_%s", when);
    say(name, free);
    snprintf(name, sizeof name, "total_%s", when);
    say(name, total);
}

int main(void) {
    CUdeviceptr reserved;
    start(0);
    ask("first");
    CUdeviceptr block = take(4 * GiB);
    ask("live");
    CHECK(cuMemFree_v2(block));
    CHECK(cuCtxSynchronize());
    ask("cached");
    CHECK(cuMemAddressReserve(&reserved, 8 * GiB, 0, 0, 0));
    ask("reserved");
    say("driver_frees", simcuda_calls("cuMemFree_v2"));
    return 0;
}
