/* One job from the gate to the ledger: run, and run again alone if it was ended for memory. */
#ifndef MEMGATE_ATTEMPT_H
#define MEMGATE_ATTEMPT_H

#include "job.h"

struct options {
    const char *gate;   /* folder; NULL: the job starts at once */
    const char *ledger; /* file; NULL: the cost is not written down */
    const char *build;  /* name of the build, so that its launchers can be called off; NULL: none */
    const char *note;   /* variable that names the job's file for note.h; NULL: none */
    char **argv;        /* the job */
};

/* Returns the exit status for the launcher: the job's own; OWN_FAILURE if the gate cannot be used or the job
 * was called off; 137 (128 + SIGKILL) if it needs more memory than there is. */
int run_gated(const struct options *options);

#endif
