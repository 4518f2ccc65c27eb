// After an illegal access every call fails: is the code passed on, at once, without a loop? 1 GiB is cached meanwhile.
#include "cu.h"

int main(void) {
    CUdeviceptr block = 42;
    start(0);
    CUdeviceptr cached = take(GiB);
    CHECK(cuMemFree_v2(cached));
    double begin = now_s();
    say("alloc", (unsigned long long)cuMemAlloc_v2(&block, 512 * MiB));
    say("output", block);
    say("free", (unsigned long long)cuMemFree_v2(0x7fffdeadb000ull));
    say("milliseconds", (unsigned long long)((now_s() - begin) * 1000));
    return 0;
}
