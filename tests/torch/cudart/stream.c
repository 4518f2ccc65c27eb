// Streams, events, captures and graphs.
#include "driver.h"
#include <string.h>

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority) {
    return WITH_CONTEXT(DRIVER(cuStreamCreateWithPriority)(stream, flags, priority));
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) { return cudaStreamCreateWithPriority(stream, flags, 0); }

cudaError_t cudaStreamCreate(cudaStream_t *stream) { return cudaStreamCreateWithPriority(stream, 0, 0); }

cudaError_t cudaStreamDestroy(cudaStream_t stream) { return WITH_CONTEXT(DRIVER(cuStreamDestroy)(stream)); }

// Priorities have no effect on the simulated driver.
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority) {
    (void)stream;
    *priority = 0;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return WITH_CONTEXT(DRIVER(cuStreamSynchronize)(stream)); }

cudaError_t cudaStreamQuery(cudaStream_t stream) { return WITH_CONTEXT(DRIVER(cuStreamQuery)(stream)); }

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    return WITH_CONTEXT(DRIVER(cuStreamWaitEvent)(stream, event, flags));
}

// Host functions run when all work before them has ended, so the host waits for it; in a capture they are refused.
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data) {
    cudaError_t code = cudaStreamSynchronize(stream);
    if (!code) function(data);
    return code;
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function, void *data, unsigned flags) {
    (void)flags;
    cudaError_t code = cudaStreamSynchronize(stream);
    if (!code) function(stream, code, data);
    return code;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    return WITH_CONTEXT(DRIVER(cuEventCreate)(event, flags));
}

cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, 0); }

cudaError_t cudaEventDestroy(cudaEvent_t event) { return WITH_CONTEXT(DRIVER(cuEventDestroy)(event)); }

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) { return WITH_CONTEXT(DRIVER(cuEventRecord)(event, stream)); }

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
    (void)flags;
    return cudaEventRecord(event, stream);
}

cudaError_t cudaEventQuery(cudaEvent_t event) { return WITH_CONTEXT(DRIVER(cuEventQuery)(event)); }

cudaError_t cudaEventSynchronize(cudaEvent_t event) { return WITH_CONTEXT(DRIVER(cuEventSynchronize)(event)); }

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end) {
    return WITH_CONTEXT(DRIVER(cuEventElapsedTime)(milliseconds, start, end));
}

// The simulated driver has no events between processes. The exporter waits for the event, and the importer gets one that was never
// recorded, for which nobody waits: the order is kept.
cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event) {
    memset(handle, 0, sizeof *handle);
    return cudaEventSynchronize(event);
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle) {
    (void)handle;
    return cudaEventCreateWithFlags(event, cudaEventDisableTiming);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
    return WITH_CONTEXT(DRIVER(cuStreamBeginCapture)(stream, (CUstreamCaptureMode)mode));
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    return WITH_CONTEXT(DRIVER(cuStreamEndCapture)(stream, graph));
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status) {
    return WITH_CONTEXT(DRIVER(cuStreamIsCapturing)(stream, (CUstreamCaptureStatus *)status));
}

// The driver of CUDA 12.0 tells of no edges.
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
                                     cudaGraph_t *graph, const cudaGraphNode_t **dependencies, const cudaGraphEdgeData **edges,
                                     size_t *count) {
    typedef CUresult (*Info)(CUstream, CUstreamCaptureStatus *, cuuint64_t *, CUgraph *, const CUgraphNode **, size_t *);
    static Info info;
    CUresult code = attach();
    if (code) return finish(code);
    if (!info) info = (Info)driver_function("cuStreamGetCaptureInfo");
    if (edges) *edges = NULL;
    cuuint64_t number = 0;
    code = info(stream, (CUstreamCaptureStatus *)status, &number, graph, dependencies, count);
    if (id) *id = number;
    return finish(code);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
    return WITH_CONTEXT(DRIVER(cuThreadExchangeStreamCaptureMode)((CUstreamCaptureMode *)mode));
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
    return WITH_CONTEXT(DRIVER(cuGraphGetNodes)(graph, nodes, count));
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags) {
    return WITH_CONTEXT(DRIVER(cuGraphInstantiateWithFlags)(exec, graph, flags));
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) { return WITH_CONTEXT(DRIVER(cuGraphLaunch)(exec, stream)); }

cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return WITH_CONTEXT(DRIVER(cuGraphDestroy)(graph)); }

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) { return WITH_CONTEXT(DRIVER(cuGraphExecDestroy)(exec)); }
