#define _GNU_SOURCE /* getline */
#include "known.h"

#include "number.h"

#include <stdlib.h>
#include <string.h>

static const char *const BLANKS = " \t\r\n";

/* Makes room for one more element of an array that grows by doubling. */
static bool grow(void **array, size_t count, size_t size) {
    if (count & (count - 1))
        return true; /* not a power of two: there is room */
    void *grown = realloc(*array, (count ? 2 * count : 1) * size);
    if (grown == NULL)
        return false;
    *array = grown;
    return true;
}

/* Reads "after N,N,...": line numbers of jobs above this one, counted from 1. */
static bool read_orders(const char *text, struct known_jobs *known, struct known_job *job) {
    do {
        char *end;
        const unsigned long line = strtoul(text, &end, 10);
        if (end == text || line < 1 || line > known->count)
            return false;
        if (!grow((void **)&known->orders, known->order_count, sizeof *known->orders))
            return false;
        known->orders[known->order_count++] = (struct order){.before = line - 1, .after = known->count};
        job->unfinished++;
        text = end;
    } while (*text++ == ',');
    return text[-1] == '\n' || text[-1] == '\0';
}

static bool is_negative(const char *text) {
    return text[strspn(text, BLANKS)] == '-';
}

/* Reads "SECONDS BYTES" and moves on behind it. */
static bool read_cost(const char **text, double *wall, int64_t *bytes) {
    char *after_seconds, *after_bytes;
    *wall = read_seconds(*text, &after_seconds);
    *bytes = read_bytes(after_seconds, &after_bytes);
    const bool good = after_seconds != *text && after_bytes != after_seconds && !is_negative(*text) &&
                      !is_negative(after_seconds);
    *text = after_bytes;
    return good;
}

static bool read_job(const char *line, struct known_jobs *known) {
    struct known_job job = {0};
    const char *rest = line;
    if (!read_cost(&rest, &job.wall, &job.bytes))
        return false;
    job.expected_wall = job.wall;
    job.expected_bytes = job.bytes;
    const char *after = strstr(line, "after");
    if (rest[strspn(rest, BLANKS)] && rest + strspn(rest, BLANKS) != after &&
        !read_cost(&rest, &job.expected_wall, &job.expected_bytes))
        return false;
    if (after && !read_orders(after + strlen("after"), known, &job))
        return false;
    if (!grow((void **)&known->jobs, known->count, sizeof *known->jobs))
        return false;
    known->jobs[known->count++] = job;
    return true;
}

bool read_known_jobs(FILE *stream, struct known_jobs *known) {
    char *line = NULL;
    size_t size = 0;
    bool good = true;
    while (good && getline(&line, &size, stream) > 0) {
        good = read_job(line, known);
        if (!good)
            fprintf(stderr, "memgate: simulate: line %zu is not \"SECONDS BYTES [after LINE,...]\"\n",
                    known->count + 1);
    }
    free(line);
    return good;
}

void free_known_jobs(struct known_jobs *known) {
    free(known->jobs);
    free(known->orders);
}
