/* What isaprobe finds out about a machine, filled in by the file for its architecture. */
#ifndef CPUWHEELS_REPORT_H
#define CPUWHEELS_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_FEATURES = 128 };

/* The tiles of AMX that one palette gives. */
struct palette {
    unsigned tiles, rows, bytes_per_row;
};

/* AMX: what the processor announces, and whether a program can use it. */
struct amx {
    bool announced;
    bool enabled;     /* the operating system saves tile state */
    bool permitted;   /* it let this process use tile data when asked */
    bool has_palette; /* CPUID describes palette 1, which all programs use */
    struct palette palette;
};

struct report {
    const char *architecture;
    char vendor[32];
    char model[128];
    const char *features[MAX_FEATURES]; /* names as in Linux's /proc/cpuinfo */
    size_t count;
    bool has_xcr0;
    uint64_t xcr0;  /* register state the operating system saves; x86 only */
    struct amx amx; /* x86 only */
};

/* A bit of a word of hardware capabilities and the name of the feature it stands for. */
struct capability {
    unsigned bit;
    const char *name;
};

void add_feature(struct report *report, const char *name);
void add_capabilities(struct report *report, unsigned long word, const struct capability *table, size_t rows);

/* Defined once, by whichever file is for the machine compiled for. */
void probe(struct report *report);

#endif
