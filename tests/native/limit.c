// Does every path count, once, and never below zero? KIND churn: 200 times 32 MiB. KIND fill: until it fails.
#include "kinds.h"

int main(int argc, char **argv) {
    Piece pieces[64] = {{0, 0}};
    size_t bytes = 33554432, free_before, free_after, total;
    (void)argc;
    int kind = kind_of(argv[1]), count = 0;
    start(0);
    CHECK(cuMemGetInfo_v2(&free_before, &total));
    if (!strcmp(argv[2], "churn")) {
        for (; count < 200; count++) {
            CHECK(get(kind, pieces, bytes));
            CHECK(put(kind, *pieces, bytes));
        }
        CHECK(cuCtxSynchronize());
        CHECK(cuMemGetInfo_v2(&free_after, &total));
        say("back", free_after == free_before);
    } else {
        CUresult code = 0;
        while (count < 64 && !(code = get(kind, pieces + count, bytes))) count++;
        say("code", (unsigned long long)code);
        say("output", pieces[count].pointer);
        CHECK(cuMemGetInfo_v2(&free_after, &total));
        say("free", free_after);
        say("total", total);
        // One less, and one fits again.
        CHECK(put(kind, pieces[--count], bytes));
        CHECK(cuCtxSynchronize());
        CHECK(get(kind, pieces + count++, bytes));
    }
    say("count", (unsigned long long)count);
    return 0;
}
