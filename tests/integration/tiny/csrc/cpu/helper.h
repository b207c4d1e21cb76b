float multiply(float a, float b);
