// Is a free to the driver, which stalls every launch, avoided while the device works? The pool holds 64 MiB that nobody uses,
// a kernel of 1.5 s runs, and the program does nothing.
#include "cu.h"

int main(void) {
    start(0);
    CUstream stream = new_stream();
    CUdeviceptr kept = take(4 * MiB), gone = take(64 * MiB);
    CHECK(cuMemFree_v2(gone));
    CHECK(cuCtxSynchronize());
    CHECK(simcuda_kernel(stream, 1500000, kept, 4096, 1));
    // It is due after 500 ms, and goes back in any case after 900.
    pause_ms(750);
    say("while_busy", simcuda_calls("cuMemFree_v2"));
    CHECK(cuCtxSynchronize());
    double begin = now_s();
    while (!simcuda_calls("cuMemFree_v2") && now_s() - begin < 2) pause_ms(5);
    say("after", simcuda_calls("cuMemFree_v2"));
    return 0;
}
