// A global object frees 1 GiB in its destructor, after the driver is gone; a global pool never frees its 16 MiB.
// return|thread|throw
#include "cu.h"
#include <stdexcept>
#include <string>
#include <thread>

struct Owner {
    CUdeviceptr block = 0;
    ~Owner() {
        if (!block) return;
        double begin = now_s();
        CUresult code = cuMemFree_v2(block);
        say("late_free", (unsigned long long)code);
        say("late_ms", (unsigned long long)((now_s() - begin) * 1000));
    }
};

struct Pool {
    CUdeviceptr block = 0;
};

// The first is constructed, and so destroyed, like the globals of any program: before main and after its exit handlers.
static Owner owner;
static Pool pool;

int main(int argc, char **argv) {
    std::string how = argc > 1 ? argv[1] : "return";
    start(0);
    owner.block = take(GiB);
    pool.block = take(16 * MiB);
    // The stand-in's teardown, as the driver's own exit handler does it.
    if (how == "thread") {
        std::thread([] { exit(0); }).detach();
        for (;;) pause();
    }
    if (how == "throw") throw std::runtime_error("nobody catches this");
    return 0;
}
