// Link 1 of a chain: puts its digit in front of what the next library in the search order says.
// build: -shared -fPIC nolink
#define DIGIT 1
#include "next.h"
