// Uses every device of a machine with more of them than the books have room for.
#include "cu.h"

int main(void) {
    int count;
    CHECK(cuInit(0));
    CHECK(cuDeviceGetCount(&count));
    for (int i = 0; i < count; i++) {
        start(i);
        CHECK(cuMemFree_v2(take(1048576)));
        take(1048576);
    }
    say("count", (unsigned long long)count);
    return 0;
}
