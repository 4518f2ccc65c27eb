// Does a free wait for the work in flight?
#include "cu.h"

int main(void) {
    CUevent done;
    start(0);
    CUstream stream = new_stream();
    CUdeviceptr block = take(4 * MiB), other = take(4 * MiB);
    CHECK(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
    CHECK(simcuda_kernel(stream, 50000, other, 4096, 1));
    CHECK(cuEventRecord(done, stream));
    CHECK(cuMemFree_v2(block));
    say("event", (unsigned long long)cuEventQuery(done));
    return 0;
}
