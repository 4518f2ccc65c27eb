// Does a clock give memory back while a stream captures? global|thread|relaxed
#include "cu.h"

int main(int argc, char **argv) {
    int mode = capture_mode(argc > 1 ? argv[1] : "global");
    CUgraph graph = NULL;
    start(0);
    CUstream stream = new_stream();
    CUdeviceptr block = take(64 * MiB), other = take(4 * MiB);
    CHECK(cuMemFree_v2(block));
    CHECK(cuStreamBeginCapture_v2(stream, mode));
    CHECK(cuMemFree_v2(other));
    pause_ms(400);
    say("freed_during_capture", simcuda_calls("cuMemFree_v2"));
    say("end", (unsigned long long)cuStreamEndCapture(stream, &graph));
    say("graph", graph != NULL);
    double begin = now_s();
    while (simcuda_calls("cuMemFree_v2") < 2 && now_s() - begin < 2) pause_ms(5);
    say("freed_after", simcuda_calls("cuMemFree_v2") == 2);
    return 0;
}
