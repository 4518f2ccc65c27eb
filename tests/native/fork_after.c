// C21 (b): a child inherits four blocks of 1 MiB and drops them; the parent still has them. keep|free
#include "cu.h"
#include <sys/wait.h>

int main(int argc, char **argv) {
    CUdeviceptr blocks[4];
    start(0);
    for (int i = 0; i < 4; i++) blocks[i] = take(1048576);
    pid_t child = fork();
    if (!child) {
        uint64_t before = simcuda_calls("cuMemFree_v2");
        for (int i = 0; i < 4; i++) say("child_free", (unsigned long long)cuMemFree_v2(blocks[i]));
        say("child_driver_frees", simcuda_calls("cuMemFree_v2") - before);
        say("child", (unsigned long long)getpid());
        pause_ms(300);
        exit(0);
    }
    int status;
    REQUIRE(waitpid(child, &status, 0) == child);
    say("status", (unsigned long long)status);
    say("parent", (unsigned long long)getpid());
    for (int i = 0; i < 4; i++) {
        // Still the parent's: the kernel that writes them is no use of freed memory.
        CHECK(simcuda_kernel(0, 1, blocks[i], 4096, 9));
        if (argc > 1 && !strcmp(argv[1], "free")) CHECK(cuMemFree_v2(blocks[i]));
    }
    return 0;
}
