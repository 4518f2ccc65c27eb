// Do frees of pointers that no hook gave get the driver's own answer? A pool's pointer, a mapping, managed memory, 100, null.
#include "cu.h"

int main(void) {
    CUdeviceptr block, mapped;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = {0};
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    start(0);
    CHECK(cuMemFree_v2(0));
    say("null", (unsigned long long)cuMemFree_v2(0));
    say("hundred", (unsigned long long)cuMemFree_v2(100));
    say("far", (unsigned long long)cuMemFree_v2(0x7fffdeadb000ull));
    CHECK(cuMemAllocAsync(&block, 1 * MiB, 0));
    CHECK(cuCtxSynchronize());
    say("async", (unsigned long long)cuMemFree_v2(block));
    CHECK(cuMemAllocManaged(&block, 1 * MiB, CU_MEM_ATTACH_GLOBAL));
    say("managed", (unsigned long long)cuMemFree_v2(block));
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CHECK(cuMemCreate(&handle, 2 * MiB, &prop, 0));
    CHECK(cuMemAddressReserve(&mapped, 2 * MiB, 0, 0, 0));
    CHECK(cuMemMap(mapped, 2 * MiB, 0, handle, 0));
    CHECK(cuMemSetAccess(mapped, 2 * MiB, &access, 1));
    say("mapped", (unsigned long long)cuMemFree_v2(mapped));
    CHECK(cuMemUnmap(mapped, 2 * MiB));
    CHECK(cuMemRelease(handle));
    CHECK(cuMemAddressFree(mapped, 2 * MiB));
    return 0;
}
