// A context ends while one of its streams captures: does the pool of the next one still reuse memory?
#include "cu.h"

int main(void) {
    start(0);
    CUstream stream = new_stream();
    CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuDevicePrimaryCtxReset_v2(0));
    start(0);
    for (int i = 0; i < 20; i++) {
        CHECK(cuMemFree_v2(take(4 * MiB)));
        CHECK(cuCtxSynchronize());
    }
    say("driver_allocations", simcuda_calls("cuMemAlloc_v2"));
    return 0;
}
