// A library to preload that is wrong in most ways; scripts/check-symbols has to find them.
// build: -shared -fPIC nolink -Wl,--no-as-needed -lm -Wl,--as-needed
int cuMemAllocAsync(void);
int cuMemAlloc(void);
int cuMemAlloc(void) { return cuMemAllocAsync(); }
__attribute__((constructor)) static void runs_everywhere(void) { __asm__ volatile(""); }
