/* The processes of a job: how much memory they hold, and how to end them. */
#ifndef MEMGATE_TREE_H
#define MEMGATE_TREE_H

#include <stdint.h>
#include <sys/types.h>

struct tree_memory {
    int64_t own_bytes;    /* of all its processes together, of no file */
    int64_t shared_bytes; /* pages of files (programs, precompiled headers), of the process that has most */
};

/* Of a process and all its descendants; zeros once they are gone, or where the system does not tell. */
struct tree_memory measure_tree(pid_t root);

/* Ends a process and all its descendants at once (SIGKILL). */
void kill_tree(pid_t root);

#endif
