#include "tiny_dnnl.h"

// Nobody calls it.
float tiny_divide(float a, float b) { return a / b; }
