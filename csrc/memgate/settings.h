/* What the build says about the gate and its jobs, in two text files of the gate's folder. */
#ifndef MEMGATE_SETTINGS_H
#define MEMGATE_SETTINGS_H

#include "policy.h"

#include <stdbool.h>

struct settings {
    struct room room;
    bool watch;                 /* whether memgate itself holds the jobs below room.bytes */
    struct waiting_job unknown; /* what a job is taken to need that nothing is known of */
    char oom_events[1024]; /* file with a line "oom_kill COUNT" of the build's control group; may be empty */
};

/* Reads FOLDER/settings: lines of a name and a value. "cpus" and "bytes" must be there and above 0;
 * "watch" (0 or 1), "unknown_seconds", "unknown_bytes" and "oom_events" may be.
 * Returns false after a message if it cannot be used. */
bool read_settings(const char *folder, struct settings *settings);

/* Looks OUTPUT up in FOLDER/expected: lines "SECONDS BYTES OUTPUT". Returns false if it is not there. */
bool find_expected(const char *folder, const char *output, struct waiting_job *job);

/* Returns how many processes were killed for memory so far: in the build's control group, else on this
 * machine. */
long long count_oom_kills(const struct settings *settings);

#endif
