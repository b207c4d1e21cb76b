/* The gate: a table that all launchers of a build share, in which each waits until the policy lets it start.
 *
 * The table is one file. Whoever changes it holds a lock on its first byte; every launcher holds a lock on a
 * byte of its own, which the processes of its job inherit. The system lets go of a lock when the last of its
 * holders is gone, however it ended, so nothing is ever held for the dead, and what an orphaned compiler
 * holds is. */
#ifndef MEMGATE_GATE_H
#define MEMGATE_GATE_H

#include "settings.h"
#include "tree.h"

#include <stdbool.h>
#include <stdint.h>

struct gate; /* one launcher's view of the table */

enum verdict {
    ADMITTED,
    CALLED_OFF, /* another job of the same build failed */
    NO_GATE,    /* the table cannot be used; a message was written */
};

struct admission {
    double waited; /* seconds */
    int lane;      /* number of the CPU slot, from 0 */
};

/* Opens FOLDER/table, making it if it is not there. Returns NULL after a message if that cannot be done.
 * `build` names the build that the launcher is part of; "" if it has no name. */
struct gate *open_gate(const char *folder, const struct settings *settings, const char *build);

/* Waits until a job may start. A second call with the same gate is for the next attempt of the same job. */
enum verdict pass_gate(struct gate *gate, struct waiting_job job, struct admission *admission);

/* What all jobs together are doing. */
struct gate_status {
    unsigned running, waiting;
    int64_t bytes, peak_bytes; /* held now, and the most in this build */
};

/* Tells the others what the job holds now. Returns true if it should be stopped: the watch is on, all jobs
 * together are about to pass the room, and this one started last. */
bool report_memory(struct gate *gate, struct tree_memory memory);

struct gate_status read_status(struct gate *gate);

/* One job that runs, in seconds. */
struct gate_job {
    double expected, age;
};

/* Finds the next job that runs, from number `*next` on, which is 0 at first. Returns false if there is none.
 */
bool next_job(struct gate *gate, uint32_t *next, struct gate_job *job);

/* Gives the room back before another attempt, so that the others can go on in it. */
void leave_gate(struct gate *gate);

/* Gives the room back for good. After a failure the launchers of the same build that still wait are called
 * off. */
void close_gate(struct gate *gate, bool failed);

#endif
