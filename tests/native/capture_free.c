// May the capturing thread itself free a block that lies in the pool? global|thread|relaxed
#include "cu.h"

int main(int argc, char **argv) {
    int mode = capture_mode(argc > 1 ? argv[1] : "global");
    CUgraph graph = NULL;
    start(0);
    CUstream stream = new_stream();
    CUdeviceptr block = take(4 * MiB);
    CHECK(cuCtxSynchronize());
    CHECK(cuStreamBeginCapture_v2(stream, mode));
    say("free", (unsigned long long)cuMemFree_v2(block));
    say("end", (unsigned long long)cuStreamEndCapture(stream, &graph));
    say("graph", graph != NULL);
    CHECK(cuCtxSynchronize());
    // Nothing is lost: the block serves the next request, or went back to the driver.
    CUdeviceptr next = take(4 * MiB);
    CHECK(cuMemFree_v2(next));
    return 0;
}
