// What do calls without a place for their answer answer? The same as without cenote, and no crash.
#include "cu.h"

int main(void) {
    size_t value = 42;
    CUdeviceptr block = 42;
    start(0);
    block = take(4096);
    say("info_no_free", (unsigned long long)cuMemGetInfo_v2(NULL, &value));
    say("total", value);
    say("info_no_total", (unsigned long long)cuMemGetInfo_v2(&value, NULL));
    say("info_neither", (unsigned long long)cuMemGetInfo_v2(NULL, NULL));
    say("alloc", (unsigned long long)cuMemAlloc_v2(NULL, 4096));
    say("alloc_large", (unsigned long long)cuMemAlloc_v2(NULL, 64 * MiB));
    say("pitch", (unsigned long long)cuMemAllocPitch_v2(NULL, &value, 100, 100, 4));
    say("no_pitch", (unsigned long long)cuMemAllocPitch_v2(&block, NULL, 100, 100, 4));
    say("managed", (unsigned long long)cuMemAllocManaged(NULL, 4096, CU_MEM_ATTACH_GLOBAL));
    say("async", (unsigned long long)cuMemAllocAsync(NULL, 4096, 0));
    say("host", (unsigned long long)cuMemHostAlloc(NULL, 4096, 0));
    say("create", (unsigned long long)cuMemCreate(NULL, 2 * MiB, NULL, 0));
    say("ipc", (unsigned long long)cuIpcGetMemHandle(NULL, block));
    say("stream", (unsigned long long)cuStreamCreate(NULL, 0));
    say("event", (unsigned long long)cuEventCreate(NULL, 0));
    return 0;
}
