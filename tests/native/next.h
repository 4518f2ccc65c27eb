// Asks for the next `chain` in the search order, time and again: an answer that depends on how often one asks is wrong.
#pragma once
#include "cu.h"

int chain(void);
int chain(void) {
    int (*next)(void) = NULL;
    for (int i = 0; i < 5; i++) {
        next = (int (*)(void))dlsym(RTLD_NEXT, "chain");
        if (!dlsym(RTLD_NEXT, "puts") || !dlsym(RTLD_NEXT, "malloc")) return -1;
    }
    return next ? next() * 10 + DIGIT : DIGIT;
}
