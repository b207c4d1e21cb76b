/* The ledger: one JSON object per line and job, appended by any number of launchers at once. */
#ifndef MEMGATE_LEDGER_H
#define MEMGATE_LEDGER_H

#include "command.h"
#include "gate.h"
#include "job.h"

#include <stdbool.h>

/* What the gate knew of a job. */
struct passage {
    struct waiting_job expected; /* bytes is 0 if there was no gate */
    struct admission admission;
    int attempt; /* from 1 */
};

/* `note` is what the job said about itself. Returns false, with errno set, if the line could not be written
 * whole. */
bool append_to_ledger(const char *path, const struct command *command, const struct passage *passage,
                      const struct job *job, const char *note);

#endif
