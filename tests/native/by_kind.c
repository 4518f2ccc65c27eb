// Leaves one block of each kind alive, sizes that tell them apart.
#include "kinds.h"

int main(void) {
    Piece pieces[KINDS];
    void *host;
    start(0);
    CHECK(get(0, &pieces[0], 1000));
    CHECK(get(0, &pieces[0], 5 * MiB));
    CHECK(get(1, &pieces[1], 6 * MiB));
    CHECK(get(2, &pieces[2], 7 * MiB));
    CHECK(get(3, &pieces[3], 8 * MiB));
    CHECK(get(4, &pieces[4], 9 * MiB));
    CHECK(get(5, &pieces[5], 10 * MiB));
    CHECK(cuMemHostAlloc(&host, 11 * MiB, 0));
    return 0;
}
