// A stub of the driver, as lies in a toolkit's stubs folder: every call fails with 34.
// build: -shared -fPIC nolink -Wl,-soname,libcuda.so.1
#define STUB(name) int name(void) { return 34; }
STUB(cuInit)
STUB(cuMemAlloc_v2)
STUB(cuMemFree_v2)
STUB(cuMemGetInfo_v2)
STUB(cuDriverGetVersion)
STUB(cuDevicePrimaryCtxRetain)
STUB(cuCtxSetCurrent)
STUB(cuCtxGetCurrent)
STUB(cuGetProcAddress)
STUB(cuGetProcAddress_v2)
