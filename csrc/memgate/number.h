/* Numbers that come from files: whatever stands there, calculating with them stays within their types. */
#ifndef MEMGATE_NUMBER_H
#define MEMGATE_NUMBER_H

#include <stdint.h>

#define MOST_BYTES   (INT64_C(1) << 50) /* as many times as there are places they can be added up */
#define MOST_SECONDS 1e9

enum { MOST_CPUS = 1 << 20 };

/* The nearest number from 0 to the largest one; 0 for what is no number. */
int64_t bounded_bytes(int64_t bytes);
double bounded_seconds(double seconds);

/* Reads a number at the beginning of a text. `end` points behind it, or to `text` if there is none; it may be
 * NULL. */
int read_cpus(const char *text);
int64_t read_bytes(const char *text, char **end);
double read_seconds(const char *text, char **end);

#endif
