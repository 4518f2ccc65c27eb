// C22: a parent leaks 7 MiB; a forked and a spawned child leak 3 x 5,242,880 B each and leave by _exit; one more is killed.
// parent_last|parent_first; the children call it with "child" or "killed".
#include "cu.h"
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

// Children write a byte to this descriptor when they hold their blocks.
enum { READY = 20 };

static void child(const char *name) {
    start(0);
    for (int i = 0; i < 3; i++) take(5242880);
    say(name, (unsigned long long)getpid());
    REQUIRE(write(READY, "r", 1) == 1);
}

int main(int argc, char **argv) {
    int parent_first = argc > 1 && !strcmp(argv[1], "parent_first");
    if (argc > 1 && !strcmp(argv[1], "child")) {
        child("spawned");
        pause_ms(argc > 2 ? 150 : 0);
        _exit(0);
    }
    int ends[2];
    char ready;
    CHECK(pipe(ends));
    REQUIRE(dup2(ends[1], READY) == READY);
    pid_t spawned, forked = fork(), killed;
    if (!forked) {
        child("forked");
        pause_ms(parent_first ? 150 : 0);
        _exit(0);
    }
    killed = fork();
    if (!killed) {
        child("killed");
        raise(SIGKILL);
    }
    char *arguments[] = {argv[0], (char *)"child", parent_first ? (char *)"late" : NULL, NULL};
    CHECK(posix_spawn(&spawned, "/proc/self/exe", NULL, NULL, arguments, environ));
    start(0);
    take(7 * MiB);
    say("parent", (unsigned long long)getpid());
    for (int i = 0; i < 3; i++) REQUIRE(read(ends[0], &ready, 1) == 1);
    if (!parent_first) {
        CHECK(waitpid(forked, NULL, 0) != forked);
        CHECK(waitpid(spawned, NULL, 0) != spawned);
    }
    CHECK(waitpid(killed, NULL, 0) != killed);
    return 0;
}
