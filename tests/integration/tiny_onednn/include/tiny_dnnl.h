float tiny_multiply(float a, float b);
