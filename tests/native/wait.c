// Holds 7 MiB and waits for MILLISECONDS, if told so with all its inherited and other descriptors closed. MILLISECONDS [close]
#include "cu.h"

int main(int argc, char **argv) {
    start(0);
    take(7 * MiB);
    if (argc > 2)
        for (int i = 3; i < 256; i++) close(i);
    puts("ready");
    fflush(stdout);
    pause_ms(argc > 1 ? atol(argv[1]) : 1000);
    return 0;
}
