// Is memory of cuMemCreate with a host location charged to no device, and not refused? (NCCL makes such handles.)
#include "cu.h"

int main(void) {
    CUmemAllocationProp prop = {0};
    CUmemGenericAllocationHandle handle[4];
    size_t before, after, total;
    start(0);
    CHECK(cuMemGetInfo_v2(&before, &total));
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_HOST;
    for (int i = 0; i < 4; i++) CHECK(cuMemCreate(handle + i, 256 * MiB, &prop, 0));
    CHECK(cuMemGetInfo_v2(&after, &total));
    say("charged", before - after);
    CHECK(cuMemRelease(handle[0]));
    return 0;
}
