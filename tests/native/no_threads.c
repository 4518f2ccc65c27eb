// A preload under which no thread can be made, as in a container at its limit of processes.
// build: -shared -fPIC nolink
#include "cu.h"
#include <errno.h>

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
    (void)thread, (void)attributes, (void)run, (void)argument;
    return EAGAIN;
}
