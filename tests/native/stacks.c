// Hooks on a thread with the smallest stack, on a coroutine's stack, and on a signal's own stack.
#include "cu.h"
#include <limits.h>
#include <signal.h>
#include <ucontext.h>

static CUcontext context;
static ucontext_t home, away;

static void *small(void *unused) {
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemFree_v2(take(4096)));
    CHECK(cuMemFree_v2(take(4 * MiB)));
    return unused;
}

static void coroutine(void) {
    CHECK(cuMemFree_v2(take(4096)));
    CHECK(cuMemFree_v2(take(4 * MiB)));
}

static void handler(int signal) {
    (void)signal;
    CHECK(cuMemFree_v2(take(4096)));
}

int main(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    stack_t other = {0};
    struct sigaction action = {0};
    context = start(0);
    CHECK(pthread_attr_init(&attributes));
    CHECK(pthread_attr_setstacksize(&attributes, 64 * KiB));
    CHECK(pthread_create(&thread, &attributes, small, NULL));
    CHECK(pthread_join(thread, NULL));
    CHECK(getcontext(&away));
    away.uc_stack.ss_size = 128 * KiB;
    away.uc_stack.ss_sp = malloc(away.uc_stack.ss_size);
    away.uc_link = &home;
    makecontext(&away, coroutine, 0);
    CHECK(swapcontext(&home, &away));
    other.ss_size = 128 * KiB;
    other.ss_sp = malloc(other.ss_size);
    CHECK(sigaltstack(&other, NULL));
    action.sa_handler = handler;
    action.sa_flags = SA_ONSTACK;
    CHECK(sigaction(SIGUSR1, &action, NULL));
    CHECK(raise(SIGUSR1));
    say("done", 1);
    return 0;
}
