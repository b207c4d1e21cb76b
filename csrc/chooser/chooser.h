/* A Python extension module that loads the best of a wheel's kernel libraries that this CPU can run. */
#ifndef CPUWHEELS_CHOOSER_H
#define CPUWHEELS_CHOOSER_H

#include "report.h"

#include <stdbool.h>
#include <stddef.h>

/* The user's choice; empty is none. */
#define CHOICE "CPUWHEELS_ISA"

/* A kernel library, which lies beside the chooser as <name>.abi3.so. */
struct library {
    const char *name;
    const char *const *needs; /* features, as isaprobe names them; the last is NULL */
};

/* What a wheel has, written into table.h when the wheel is built. */
struct table {
    const char *module;              /* the chooser's own name; libraries are named <module>_<ISA> */
    const char *target;              /* for people */
    const struct library *libraries; /* best first */
    size_t count;
};

/* A message; what does not fit is left out. */
struct text {
    char bytes[2048];
    size_t length;
};

__attribute__((format(printf, 2, 3))) void append(struct text *text, const char *format, ...);

bool can_run(const struct report *cpu, const struct library *library);

/* The library named by the user, else the first that the CPU can run; NULL if there is none, and why. */
const struct library *choose(const struct table *table, const struct report *cpu, const char *choice,
                             struct text *why);

/* Loads a library from the folder of the chooser itself; false if that fails, and why. */
bool load(const struct library *library, struct text *why);

#endif
