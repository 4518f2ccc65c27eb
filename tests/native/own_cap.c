// A program that caps itself at "free now + what I hold", three times: are the caps equal?
#include "cu.h"

int main(void) {
    size_t free, total;
    start(0);
    size_t held = 0;
    for (int i = 0; i < 3; i++) {
        CHECK(cuMemGetInfo_v2(&free, &total));
        REQUIRE(free <= total);
        say("cap", free + held);
        take(2 * GiB);
        held += 2 * GiB;
    }
    return 0;
}
