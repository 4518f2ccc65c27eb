// Is a free to the driver, which stalls every launch, avoided while the device works? A kernel of 1.5 s runs, the pool holds
// 64 MiB, and the program does nothing.
#include "cu.h"

int main(void) {
    start(0);
    CUstream stream = new_stream();
    CUdeviceptr kept = take(4 * MiB), gone = take(64 * MiB);
    CHECK(simcuda_kernel(stream, 1500000, kept, 4096, 1));
    CHECK(cuMemFree_v2(gone));
    pause_ms(800);
    say("while_busy", simcuda_calls("cuMemFree_v2"));
    CHECK(cuCtxSynchronize());
    double begin = now_s();
    while (!simcuda_calls("cuMemFree_v2") && now_s() - begin < 2) pause_ms(5);
    say("after", simcuda_calls("cuMemFree_v2"));
    return 0;
}
