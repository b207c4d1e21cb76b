/* The ledger: one JSON object per line and job, appended by any number of launchers at once. */
#ifndef MEMGATE_LEDGER_H
#define MEMGATE_LEDGER_H

#include "command.h"
#include "job.h"

#include <stdbool.h>

/* Returns false, with errno set, if the line could not be written whole. */
bool append_to_ledger(const char *path, const struct command *command, const struct job *job);

#endif
