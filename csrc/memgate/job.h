/* One run of a compiler or linker and what it cost. */
#ifndef MEMGATE_JOB_H
#define MEMGATE_JOB_H

#include <stdbool.h>
#include <stdint.h>

enum { OWN_FAILURE = 125, CANNOT_EXECUTE = 126, NOT_FOUND = 127 }; /* as env(1) and timeout(1) use them */

struct job {
    double start;              /* seconds since 1970 */
    double wall, user, system; /* seconds; user and system of every process that was waited for */
    int64_t peak_bytes;        /* largest resident set of any single process in the tree */
    int status;                /* exit status, or 128 + n for signal n */
};

/* Runs the command to its end. Returns false, with errno set, if no process could be made. */
bool run_job(char **argv, struct job *job);

#endif
