// Is a second free refused, and is the block never handed to two owners? BYTES
#include "cu.h"

__attribute__((noinline)) static CUdeviceptr allocate_here(size_t bytes) { return take(bytes); }
__attribute__((noinline)) static CUresult free_here(CUdeviceptr block) { return cuMemFree_v2(block) + 0; }
__attribute__((noinline)) static CUresult free_again(CUdeviceptr block) { return cuMemFree_v2(block) + 0; }

int main(int argc, char **argv) {
    size_t bytes = argc > 1 ? strtoull(argv[1], NULL, 0) : 512;
    start(0);
    CUdeviceptr block = allocate_here(bytes);
    CHECK(free_here(block));
    say("second", (unsigned long long)free_again(block));
    CHECK(cuCtxSynchronize());
    CUdeviceptr one = take(bytes), two = take(bytes);
    say("differ", one != two);
    CHECK(cuMemFree_v2(one));
    CHECK(cuMemFree_v2(two));
    return 0;
}
