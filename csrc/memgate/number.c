#include "number.h"

#include <stdlib.h>

int64_t bounded_bytes(int64_t bytes) {
    if (bytes < 0)
        return 0;
    return bytes < MOST_BYTES ? bytes : MOST_BYTES;
}

double bounded_seconds(double seconds) {
    if (!(seconds > 0)) /* NaN, too */
        return 0;
    return seconds < MOST_SECONDS ? seconds : MOST_SECONDS;
}

int read_cpus(const char *text) {
    const long long cpus =
        strtoll(text, NULL, 10); /* the nearest it can express, if there are too many digits */
    if (cpus < 0)
        return 0;
    return cpus < MOST_CPUS ? (int)cpus : MOST_CPUS;
}

int64_t read_bytes(const char *text, char **end) {
    return bounded_bytes(strtoll(text, end, 10));
}

double read_seconds(const char *text, char **end) {
    return bounded_seconds(strtod(text, end));
}
