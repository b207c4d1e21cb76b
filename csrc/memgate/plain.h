/* Files that others may have made: never through a link, never a FIFO or a device that one would wait for. */
#ifndef MEMGATE_PLAIN_H
#define MEMGATE_PLAIN_H

#include <stdio.h>

/* Opens a regular file with the flags of open(2); what it makes can be read by all. Returns -1, with errno
 * set, if it cannot be, or is something else. */
int open_plain(const char *path, int flags);

/* The same to read lines of; NULL if it cannot be. */
FILE *read_plain(const char *path);

#endif
