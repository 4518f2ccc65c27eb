// A signal handler ends the process by _exit, wherever the signal found it: in the allocator, in malloc. MICROSECONDS
#include "cu.h"
#include <signal.h>
#include <sys/time.h>

static void handler(int signal) {
    (void)signal;
    _exit(7);
}

int main(int argc, char **argv) {
    struct itimerval timer = {{0, 0}, {0, argc > 1 ? atol(argv[1]) : 1000}};
    start(0);
    signal(SIGALRM, handler);
    setitimer(ITIMER_REAL, &timer, NULL);
    for (;;) {
        CUdeviceptr small = take(4096), large = take(4 * MiB);
        free(malloc(100000));
        CHECK(cuMemFree_v2(small));
        CHECK(cuMemFree_v2(large));
    }
}
