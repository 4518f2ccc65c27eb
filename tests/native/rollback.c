// After a call that failed, is anything still allocated or charged? KIND: ten rounds in which some calls fail.
#include "kinds.h"

int main(int argc, char **argv) {
    size_t before, after, total;
    int kind = kind_of(argc > 1 ? argv[1] : "plain"), failed = 0;
    start(0);
    CHECK(cuMemGetInfo_v2(&before, &total));
    for (int round = 0; round < 10; round++) {
        Piece piece = {0, 0};
        CUresult code = get(kind, &piece, 32 * MiB);
        if (code) {
            failed++;
            say("code", (unsigned long long)code);
            REQUIRE(piece.pointer == 0);
        } else {
            CHECK(put(kind, piece, 32 * MiB));
        }
    }
    CHECK(cuCtxSynchronize());
    CHECK(cuMemGetInfo_v2(&after, &total));
    say("failed", (unsigned long long)failed);
    say("back", before == after);
    return 0;
}
