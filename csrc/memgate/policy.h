/* Which waiting job starts next. No clock and no I/O in here: memgate and its simulation decide alike. */
#ifndef MEMGATE_POLICY_H
#define MEMGATE_POLICY_H

#include <stddef.h>
#include <stdint.h>

struct room {
    int cpus;
    int64_t bytes; /* for all jobs together */
};

struct running_job {
    double left;   /* expected seconds to its end; below 0 if it is overdue */
    int64_t bytes; /* held for it */
};

struct waiting_job {
    double wall;          /* expected seconds */
    int64_t bytes;        /* expected peak; more than there is room for means alone */
    unsigned passed_over; /* jobs that were chosen although this one came first; counted by choose_job */
};

enum {
    /* Times the number of CPUs: how often a job is passed over before all others leave it room. */
    PATIENCE = 32,
    /* Jobs that weigh less than this part of the first one leave it room at once. */
    LITTLE = 10,
};

/* Returns the index of the waiting job to start now, or -1 if none should. To be called until it says -1.
 *
 * First comes the job whose time, multiplied by its share of what it takes most of (CPUs or memory: its
 * dominant share, Ghodsi et al., NSDI 2011), weighs the most. Of those, the first one that fits starts. So
 * that many little jobs do not take, bit by bit, the room that the first one waits for, they only start if
 * they are expected to end before that room appears, or leave enough of it (EASY backfilling, Lifka, JSSPP
 * 1995). A job that was passed over too often gets the next room that is large enough: then this goes for all
 * others.
 */
ptrdiff_t choose_job(const struct room *room, const struct running_job *running, size_t running_count,
                     struct waiting_job *waiting, size_t waiting_count);

#endif
