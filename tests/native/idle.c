// Does freed memory go back to the driver when nobody asks for it? BYTES MILLISECONDS [small]
#include "cu.h"

int main(int argc, char **argv) {
    size_t bytes = strtoull(argv[1], NULL, 0);
    long wait = atol(argv[2]);
    int small = argc > 3;
    start(0);
    if (small) {
        CUdeviceptr blocks[64];
        for (int i = 0; i < 64; i++) blocks[i] = take(bytes / 64);
        for (int i = 0; i < 64; i++) CHECK(cuMemFree_v2(blocks[i]));
    } else {
        CHECK(cuMemFree_v2(take(bytes)));
    }
    uint64_t before = simcuda_calls("cuMemFree_v2");
    double begin = now_s();
    while (simcuda_calls("cuMemFree_v2") == before && now_s() - begin < (double)wait / 1000) pause_ms(5);
    say("before", before);
    say("after", simcuda_calls("cuMemFree_v2"));
    say("milliseconds", (unsigned long long)((now_s() - begin) * 1000));
    return 0;
}
