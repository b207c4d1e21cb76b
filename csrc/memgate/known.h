/* Jobs of known cost, as the simulation reads them. */
#ifndef MEMGATE_KNOWN_H
#define MEMGATE_KNOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct known_job {
    double wall, expected_wall; /* seconds */
    int64_t bytes, expected_bytes;
    size_t unfinished; /* jobs that have to end before this one can start */
};

/* A job can start only after another has ended. Both are indices. */
struct order {
    size_t before, after;
};

struct known_jobs {
    struct known_job *jobs;
    size_t count;
    struct order *orders;
    size_t order_count;
};

/* Reads one job per line, see simulate.h; says on standard error which line it cannot read. */
bool read_known_jobs(FILE *stream, struct known_jobs *known);
void free_known_jobs(struct known_jobs *known);

#endif
