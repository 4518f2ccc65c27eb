// Is what cuMemGetInfo calls free really to be had, in one piece?
#include "cu.h"

int main(void) {
    size_t free = 0, total = 0;
    CUdeviceptr block = 0;
    start(0);
    say("code", (unsigned long long)cuMemGetInfo_v2(&free, &total));
    say("free", free);
    say("total", total);
    say("alloc", free ? (unsigned long long)cuMemAlloc_v2(&block, free) : 0);
    CHECK(cuMemGetInfo_v2(&free, &total));
    say("free_after", free);
    return 0;
}
