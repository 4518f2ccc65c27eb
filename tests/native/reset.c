// After a reset the driver gives the same context handle with a new id: is memory from before ever handed out?
// reset|release|destroy
#include "cu.h"

// A driver from before 12.0 has no ids.
#pragma weak cuCtxGetId

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "reset";
    CUcontext context, again;
    unsigned long long id = 0, new_id = 0;
    CHECK(cuInit(0));
    if (!strcmp(how, "destroy")) {
        CHECK(cuCtxCreate_v2(&context, 0, 0));
    } else {
        context = start(0);
    }
    if (cuCtxGetId) CHECK(cuCtxGetId(context, &id));
    CUdeviceptr cached = take(4 * MiB), lost = take(8 * MiB), small = take(512), lost_small = take(512);
    CHECK(cuMemFree_v2(cached));
    CHECK(cuMemFree_v2(small));
    CHECK(cuCtxSynchronize());
    if (!strcmp(how, "destroy")) {
        CHECK(cuCtxDestroy_v2(context));
        CHECK(cuCtxCreate_v2(&again, 0, 0));
    } else {
        CHECK(!strcmp(how, "reset") ? cuDevicePrimaryCtxReset_v2(0) : cuDevicePrimaryCtxRelease_v2(0));
        again = start(0);
    }
    if (cuCtxGetId) CHECK(cuCtxGetId(again, &new_id));
    say("same_handle", again == context);
    say("new_id", new_id != id);
    // Before the addresses are given to anybody else: the driver knows them no more.
    uint64_t before = simcuda_calls("cuMemFree_v2");
    say("late_free", (unsigned long long)cuMemFree_v2(lost));
    say("late_free_small", (unsigned long long)cuMemFree_v2(lost_small));
    say("forwarded", simcuda_calls("cuMemFree_v2") - before);
    CUdeviceptr block = take(4 * MiB), tiny = take(512);
    CHECK(simcuda_kernel(0, 10, block, 4 * MiB, 0x55));
    CHECK(simcuda_kernel(0, 10, tiny, 512, 0x66));
    CHECK(cuCtxSynchronize());
    say("right", (unsigned long long)(simcuda_check(block, 4 * MiB, 0x55) && simcuda_check(tiny, 512, 0x66)));
    CHECK(cuMemFree_v2(block));
    CHECK(cuMemFree_v2(tiny));
    return 0;
}
