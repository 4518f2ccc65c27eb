// Link 3 of a chain: puts its digit in front of what the next library in the search order says.
// build: -shared -fPIC nolink
#define DIGIT 3
#include "next.h"
