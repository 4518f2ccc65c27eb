// C28: reads what is free, takes 3 GiB, reads it again, takes 1 GiB, while the card's answers are a neighbour's doing.
#include "cu.h"

int main(void) {
    size_t free = 0, total = 0;
    start(0);
    CHECK(cuMemGetInfo_v2(&free, &total));
    REQUIRE(free <= total);
    take(3 * GiB);
    for (int i = 0; i < 4; i++) {
        CHECK(cuMemGetInfo_v2(&free, &total));
        REQUIRE(free <= total);
    }
    take(1 * GiB);
    say("abort", 0);
    return 0;
}
