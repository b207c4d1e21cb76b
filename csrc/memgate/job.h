/* One run of a compiler or linker and what it cost. */
#ifndef MEMGATE_JOB_H
#define MEMGATE_JOB_H

#include "tree.h"

#include <stdbool.h>
#include <stdint.h>

enum { OWN_FAILURE = 125, CANNOT_EXECUTE = 126, NOT_FOUND = 127 }; /* as env(1) and timeout(1) use them */

struct job {
    double start;              /* seconds since 1970 */
    double wall, user, system; /* seconds; user and system of every process that was waited for */
    int64_t peak_bytes;        /* largest resident set of any single process in the tree */
    int64_t tree_bytes;   /* largest sum over the whole tree that was seen; 0 for jobs too short to be seen */
    int64_t shared_bytes; /* of tree_bytes, the pages of files */
    int status;           /* exit status, or 128 + n for signal n */
    bool stopped;         /* whether the observer had it ended */
};

/* Is told every 50 ms what the job holds; returns true to have it ended at once. */
struct observer {
    bool (*look)(void *context, struct tree_memory memory);
    void *context;
};

/* Runs the command to its end. `observer` may be NULL. Returns false, with errno set, if no process could be
 * made. */
bool run_job(char **argv, const struct observer *observer, struct job *job);

#endif
