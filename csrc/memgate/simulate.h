/* Trying the policy on jobs whose cost is known, for machines that are not at hand. */
#ifndef MEMGATE_SIMULATE_H
#define MEMGATE_SIMULATE_H

#include "policy.h"

#include <stdio.h>

/* Reads jobs, one per line: "SECONDS BYTES", or "SECONDS BYTES EXPECTED_SECONDS EXPECTED_BYTES" where a
 * prediction differs from what a job takes. "after LINE,LINE,..." at the end names jobs above it, counted
 * from line 1, that have to end before it can start; all others are ready at the start. Writes one JSON
 * object: makespan (seconds until the last one ends), peak_bytes (the most they took together), jobs,
 * passed_over (the most any job was). Returns an exit status. */
int simulate(const struct room *room, FILE *jobs, FILE *report);

#endif
