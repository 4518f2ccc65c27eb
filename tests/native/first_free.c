// The first call of the process is a free, by the exported name: the driver's own answer.
#include "cu.h"

int main(void) {
    say("zero", (unsigned long long)cuMemFree_v2(0));
    say("some", (unsigned long long)cuMemFree_v2(0x7f0000000000ull));
    start(0);
    say("later", (unsigned long long)cuMemFree_v2(0x7f0000000000ull));
    CHECK(cuMemFree_v2(take(4096)));
    return 0;
}
