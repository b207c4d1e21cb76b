/* What `cpuwheels verify` makes differ in a second build for the programs that load this library
 * (LD_PRELOAD): the time of day, and the order in which a folder's files are listed. */
#ifndef VARY_H
#define VARY_H

/* Returns the number in an environment variable, or 0 if it has none. */
long long number_from(const char *variable);

#endif
