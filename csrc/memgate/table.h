/* The file that all launchers of a build share, and the locks on it. */
#ifndef MEMGATE_TABLE_H
#define MEMGATE_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { PLACES = 4096, BUILD_NAME = 64 };

enum { TABLE_VERSION = 2 };

enum place_state { FREE, WAITING, RUNNING, OFF };

/* One launcher's line of the table. Changed under the table's lock, but for `state`, which its launcher waits
 * on, and for what is atomic. */
struct place {
    _Atomic uint32_t state; /* enum place_state */
    uint32_t passed_over;
    uint64_t order; /* of admission: the larger the later */
    double wall;    /* expected seconds */
    double since;   /* when it started, seconds of the system's monotonic clock */
    int64_t bytes;  /* expected peak */
    _Atomic int64_t own_bytes, shared_bytes,
        growth_bytes; /* what it holds now, and what it will take in a moment */
    int32_t lane;
    char build[BUILD_NAME];
};

struct table {
    uint32_t version;
    uint32_t used;                 /* places beyond this were never taken */
    uint64_t admitted;             /* so many so far */
    _Atomic double swept;          /* when somebody last looked for the dead */
    char failed_build[BUILD_NAME]; /* the last build in which a job failed */
    char build[BUILD_NAME];        /* the last build that used the table, which peak_bytes is of */
    _Atomic int64_t peak_bytes;    /* the most that all jobs held together */
    struct place places[PLACES];
};

/* Maps FOLDER/table, making it if it is not there or of another version. A link to some other file is
 * refused. `holder` is a second description of the same file. Returns NULL after a message.
 *
 * Whatever stands in the file, this program stays within its memory: a number of places is bounded where it
 * is read, and a file that is cut short while it is mapped is lengthened again, with zeros. */
struct table *open_table(const char *folder, int *file, int *holder);

/* The system releases what this process still holds in it. */
void close_table(struct table *table, int file, int holder);

/* How many places were ever taken, as far as the table can be right. */
uint32_t used_places(const struct table *table);

/* Waits for the table's lock, but not for ever: whoever has it holds it for milliseconds. */
bool lock_table(int file);
void unlock_table(int file);

/* Takes the lock of a place through a descriptor that processes started later inherit. */
bool hold_place(int holder, uint32_t place);
void release_place(int holder, uint32_t place);

/* Returns whether any process still has a place's lock. */
bool is_held(int file, uint32_t place);

/* Waits until a place's state is no longer `state`, or for so many seconds. */
void wait_for_change(struct place *place, uint32_t state, double seconds);
void wake(struct place *place);

#endif
