// C21 (a): the parent looks the driver up, forks, and the child uses CUDA; then the parent does too.
#include "cu.h"
#include <dirent.h>
#include <sys/wait.h>

static int threads(void) {
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *entry; (entry = readdir(tasks));) count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

int main(void) {
    int version = 0;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    REQUIRE(driver && dlsym(driver, "cuInit") && dlsym(driver, "cuMemAlloc_v2"));
    CHECK(cuDriverGetVersion(&version));
    say("threads", (unsigned long long)threads());
    say("inits", simcuda_calls("cuInit"));
    pid_t child = fork();
    if (!child) {
        start(0);
        CUdeviceptr block = take(3 * MiB);
        CHECK(cuMemFree_v2(block));
        take(2 * MiB);
        say("child", (unsigned long long)getpid());
        exit(0);
    }
    int status;
    REQUIRE(waitpid(child, &status, 0) == child);
    say("status", (unsigned long long)status);
    start(0);
    take(5 * MiB);
    return 0;
}
