// A jump leaves frames that have called the hooks, also out of a signal handler.
#include "cu.h"
#include <setjmp.h>
#include <signal.h>

static sigjmp_buf back;

static void handler(int signal) {
    (void)signal;
    siglongjmp(back, 2);
}

__attribute__((noinline)) static void deep(int depth) {
    CUdeviceptr block = take(4096);
    CHECK(cuMemFree_v2(block));
    if (depth == 0) siglongjmp(back, 1);
    deep(depth - 1);
}

int main(void) {
    volatile int jumps = 0;
    start(0);
    signal(SIGUSR1, handler);
    for (volatile int i = 0; i < 100; i++) {
        int from = sigsetjmp(back, 1);
        if (from) jumps++;
        else if (i % 2) deep(5);
        else raise(SIGUSR1);
    }
    say("jumps", (unsigned long long)jumps);
    return 0;
}
