// Uses CUDA and then becomes another program that does: exec|vfork|spawn|system, then the program and its arguments.
#include "cu.h"
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

int main(int argc, char **argv) {
    pid_t child = 0;
    int status = 0;
    REQUIRE(argc > 2);
    start(0);
    take(3 * MiB);
    say("before", (unsigned long long)getpid());
    if (!strcmp(argv[1], "exec")) {
        execv(argv[2], argv + 2);
        return 4;
    }
    if (!strcmp(argv[1], "vfork")) {
        child = vfork();
        if (!child) {
            execv(argv[2], argv + 2);
            _exit(4);
        }
    } else if (!strcmp(argv[1], "vfork_fails")) {
        // The child of vfork shares the parent's memory; its _exit must not end the parent's books.
        child = vfork();
        if (!child) {
            execl("/nowhere/at/all", "nowhere", (char *)NULL);
            _exit(4);
        }
    } else {
        CHECK(posix_spawn(&child, argv[2], NULL, NULL, argv + 2, environ));
    }
    REQUIRE(waitpid(child, &status, 0) == child);
    say("status", (unsigned long long)WEXITSTATUS(status));
    take(4 * MiB);
    return 0;
}
