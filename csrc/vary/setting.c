#include "vary.h"

#include <stdlib.h>

long long number_from(const char *variable) {
    const char *text = getenv(variable);
    long long number = text ? strtoll(text, NULL, 10) : 0;
    return number > 0 ? number : 0;
}
