#include "helper.h"

#ifdef __APPLE__
float multiply(float a, float b) { return a * b; }
#else
#include "tiny_dnnl.h"

float multiply(float a, float b) { return tiny_multiply(a, b); }
#endif
