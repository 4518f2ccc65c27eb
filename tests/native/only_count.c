// Asks for the number of devices and nothing else: no hooked call, so nothing of cenote's should have begun.
#include "cu.h"
#include <dirent.h>

int main(void) {
    int count = 0, threads = 0;
    CHECK(cuInit(0));
    CHECK(cuDeviceGetCount(&count));
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *entry; (entry = readdir(tasks));) threads += entry->d_name[0] != '.';
    closedir(tasks);
    say("threads", (unsigned long long)threads);
    say("count", (unsigned long long)count);
    return 0;
}
