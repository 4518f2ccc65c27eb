// Does RTLD_NEXT go on from the library that asks, in a chain of three, from several threads?
// build: nolink -rdynamic
#include "cu.h"

static void *ask(void *unused) {
    int (*first)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "chain");
    REQUIRE(first);
    for (int i = 0; i < 100; i++) REQUIRE(first() == 321);
    return unused;
}

int main(void) {
    pthread_t threads[4];
    ask(NULL);
    for (int i = 0; i < 4; i++) CHECK(pthread_create(threads + i, NULL, ask, NULL));
    for (int i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL));
    say("done", 1);
    return 0;
}
