// Leaks 7 MiB and ends in one of the ways in which a process can end; with status 7 where it has a say.
// return|exit|_exit|_Exit|quick_exit|raw|abort|term|kill|thread|last_thread
#include "cu.h"
#include <signal.h>
#include <sys/syscall.h>

static void *from_thread(void *unused) {
    (void)unused;
    exit(7);
}

static void *outlives_main(void *unused) {
    pause_ms(50);
    return unused;
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "return";
    pthread_t thread;
    start(0);
    take(7 * MiB);
    puts("ready");
    fflush(stdout);
    if (!strcmp(how, "exit")) exit(7);
    if (!strcmp(how, "_exit")) _exit(7);
    if (!strcmp(how, "_Exit")) _Exit(7);
    if (!strcmp(how, "quick_exit")) quick_exit(7);
    if (!strcmp(how, "raw")) syscall(SYS_exit_group, 7);
    if (!strcmp(how, "abort")) abort();
    if (!strcmp(how, "term")) raise(SIGTERM);
    if (!strcmp(how, "kill")) raise(SIGKILL);
    if (!strcmp(how, "thread")) {
        CHECK(pthread_create(&thread, NULL, from_thread, NULL));
        pause();
    }
    if (!strcmp(how, "last_thread")) {
        CHECK(pthread_create(&thread, NULL, outlives_main, NULL));
        pthread_exit(NULL);
    }
    return 7;
}
