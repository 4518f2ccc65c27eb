// Goes to another folder after the first CUDA call. FOLDER
#include "cu.h"

int main(int argc, char **argv) {
    REQUIRE(argc > 1);
    start(0);
    take(7 * MiB);
    return chdir(argv[1]);
}
