// Initialises the driver as a library does that only looks whether there is a card, and ends.
// build: nolink
#include "driver.h"

int main(void) {
    InitFn init = (InitFn)dlsym(open_driver(), "cuInit");
    REQUIRE(init);
    printf("%s %d\n", module_of((void *)init), init(0));
    return 0;
}
