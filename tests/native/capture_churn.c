// While one thread captures, another allocates and frees all the time. What does that cost the card? ROUNDS
#include "cu.h"

static void *churn(void *rounds) {
    CUcontext context;
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    for (long i = 0; i < (long)rounds; i++) CHECK(cuMemFree_v2(take(64 * MiB)));
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t thread;
    CUgraph graph = NULL;
    start(0);
    CUstream stream = new_stream();
    CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK(pthread_create(&thread, NULL, churn, (void *)(argc > 1 ? atol(argv[1]) : 100)));
    CHECK(pthread_join(thread, NULL));
    say("end", (unsigned long long)cuStreamEndCapture(stream, &graph));
    return 0;
}
