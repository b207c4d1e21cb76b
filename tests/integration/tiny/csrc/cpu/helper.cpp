#include "helper.h"
#include "tiny_dnnl.h"

float multiply(float a, float b) { return tiny_multiply(a, b); }
