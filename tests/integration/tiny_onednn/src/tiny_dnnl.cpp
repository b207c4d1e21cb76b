#include "tiny_dnnl.h"

float tiny_multiply(float a, float b) { return a * b; }
