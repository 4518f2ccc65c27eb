// Where the driver fails to say how much is free, is its code passed on and nothing written?
#include "cu.h"

int main(void) {
    size_t free = 42, total = 43;
    start(0);
    say("code", (unsigned long long)cuMemGetInfo_v2(&free, &total));
    say("free", free);
    say("total", total);
    return 0;
}
