// Goes to another folder after the first CUDA call.
#include "cu.h"

int main(void) {
    start(0);
    take(7 * MiB);
    return chdir("/");
}
