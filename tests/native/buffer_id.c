// Does a block that comes out of the cache keep its buffer id, and does memory that went to the driver get a new one?
// Registration caches compare address and id.
#include "cu.h"

static unsigned long long id_of(CUdeviceptr block) {
    unsigned long long id = 0;
    CHECK(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, block));
    return id;
}

int main(void) {
    start(0);
    CUdeviceptr first = take(4 * MiB);
    unsigned long long id = id_of(first);
    CHECK(cuMemFree_v2(first));
    CHECK(cuCtxSynchronize());
    CUdeviceptr second = take(4 * MiB);
    say("same_address", second == first);
    say("same_id", id_of(second) == id);
    return 0;
}
