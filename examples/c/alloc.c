/* Memory for two streams from cenote's C API.
 *
 *     cc -I include -I $CUDA_HOME/include examples/c/alloc.c -o alloc -L target/stage -lcenote -lcuda
 *     LD_LIBRARY_PATH=target/stage ./alloc
 */
#include <cuda.h>
#include <stdio.h>

#include "cenote.h"

static int give_up(int device, size_t size, void *user) {
    (void)user;
    printf("device %d has no %lu bytes left\n", device, (unsigned long)size);
    return 0;
}

int main(void) {
    CUcontext context;
    CUstream streams[2];
    void *weights = NULL, *scratch = NULL, *too_much = NULL;
    struct cenote_stats stats;
    int status;

    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context)) return 1;
    if (cuStreamCreate(&streams[0], CU_STREAM_NON_BLOCKING)) return 1;
    if (cuStreamCreate(&streams[1], CU_STREAM_NON_BLOCKING)) return 1;
    printf("cenote %s\n", cenote_version());
    cenote_on_oom(give_up, NULL);

    status = cenote_alloc(100 << 20, 0, streams[0], &weights);
    if (status != CENOTE_OK) return status;
    status = cenote_alloc(40 << 20, 0, streams[1], &scratch);
    if (status != CENOTE_OK) return status;
    /* Work on the second stream reads the weights: they wait for it after their free. */
    status = cenote_record_use(weights, streams[1]);
    if (status != CENOTE_OK) return status;

    cenote_mark("step");
    cenote_free(weights);
    if (cenote_alloc((size_t)1 << 50, 0, streams[0], &too_much) != CENOTE_OUT_OF_MEMORY) return 1;

    stats.size = sizeof stats;
    status = cenote_stats(0, &stats);
    if (status != CENOTE_OK) return status;
    printf("live %lu\n", (unsigned long)stats.allocated_bytes.current);
    printf("peak %lu\n", (unsigned long)stats.allocated_bytes.peak);
    cenote_free(scratch);
    printf("given back %lu\n", (unsigned long)cenote_trim());
    return 0;
}
