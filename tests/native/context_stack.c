// Is the stack of contexts the same after calls whose work is done in another context?
#include "cu.h"

static unsigned long long current(void) {
    CUcontext context = NULL;
    unsigned long long id = 0;
    CHECK(cuCtxGetCurrent(&context));
    if (context) CHECK(cuCtxGetId(context, &id));
    return id;
}

int main(void) {
    CUcontext zero = start(0), one = start(1), popped;
    CHECK(cuCtxSetCurrent(zero));
    CUdeviceptr a = take(4 * MiB), small = take(4096);
    CHECK(cuCtxPushCurrent_v2(one));
    CUdeviceptr b = take(4 * MiB);
    say("top", current());
    CHECK(cuMemFree_v2(a));
    CHECK(cuMemFree_v2(small));
    CHECK(cuMemFreeAsync(b, 0));
    say("top", current());
    for (int i = 0; i < 50; i++) CHECK(cuMemFree_v2(take(4 * MiB)));
    say("top", current());
    CHECK(cuCtxPopCurrent_v2(&popped));
    say("popped", popped == one);
    say("top", current());
    CHECK(cuCtxSetCurrent(NULL));
    say("none", current());
    return 0;
}
