#include "simulate.h"

#include "job.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>

struct known_job {
    double wall, expected_wall; /* seconds */
    int64_t bytes, expected_bytes;
};

struct simulation {
    const struct room *room;
    double now;
    struct known_job *jobs; /* of those that wait: jobs[i] belongs to waiting[i] */
    struct waiting_job *waiting;
    size_t waiting_count;
    struct known_job *started; /* of those that run */
    double *ends;
    struct running_job *running;
    size_t running_count;
    int64_t bytes, peak_bytes;
    unsigned passed_over;
};

static bool read_job(const char *line, struct known_job *job) {
    const int fields = sscanf(line, "%lf %" SCNd64 " %lf %" SCNd64, &job->wall, &job->bytes,
                              &job->expected_wall, &job->expected_bytes);
    if (fields == 2) {
        job->expected_wall = job->wall;
        job->expected_bytes = job->bytes;
    }
    return (fields == 2 || fields == 4) && job->wall >= 0 && job->bytes >= 0 && job->expected_bytes >= 0;
}

static bool read_jobs(FILE *stream, struct known_job **jobs, size_t *count) {
    char line[256];
    size_t room = 0;
    while (fgets(line, sizeof line, stream)) {
        if (*count == room) {
            room = room ? 2 * room : 256;
            struct known_job *grown = realloc(*jobs, room * sizeof *grown);
            if (grown == NULL)
                return false;
            *jobs = grown;
        }
        if (!read_job(line, &(*jobs)[*count])) {
            fprintf(stderr, "memgate: simulate: line %zu is not \"SECONDS BYTES\"\n", *count + 1);
            return false;
        }
        (*count)++;
    }
    return true;
}

static void start(struct simulation *state, size_t index) {
    const struct known_job job = state->jobs[index];
    const int64_t held = job.expected_bytes < state->room->bytes ? job.expected_bytes : state->room->bytes;
    if (state->waiting[index].passed_over > state->passed_over)
        state->passed_over = state->waiting[index].passed_over;
    state->started[state->running_count] = job;
    state->ends[state->running_count] = state->now + job.wall;
    state->running[state->running_count++] = (struct running_job){.left = job.expected_wall, .bytes = held};
    state->jobs[index] = state->jobs[--state->waiting_count];
    state->waiting[index] = state->waiting[state->waiting_count];
    state->bytes += job.bytes;
    if (state->bytes > state->peak_bytes)
        state->peak_bytes = state->bytes;
}

static void end_next(struct simulation *state) {
    size_t next = 0;
    for (size_t index = 1; index < state->running_count; index++)
        if (state->ends[index] < state->ends[next])
            next = index;
    const double passed = state->ends[next] - state->now;
    state->now = state->ends[next];
    state->bytes -= state->started[next].bytes;
    state->running_count--;
    state->started[next] = state->started[state->running_count];
    state->ends[next] = state->ends[state->running_count];
    state->running[next] = state->running[state->running_count];
    for (size_t index = 0; index < state->running_count; index++)
        state->running[index].left -= passed;
}

static void run_all(struct simulation *state) {
    while (state->waiting_count || state->running_count) {
        ptrdiff_t chosen;
        while ((chosen = choose_job(state->room, state->running, state->running_count, state->waiting,
                                    state->waiting_count)) >= 0)
            start(state, (size_t)chosen);
        end_next(state);
    }
}

int simulate(const struct room *room, FILE *jobs, FILE *report) {
    struct simulation state = {.room = room};
    size_t count = 0;
    int status = OWN_FAILURE;
    if (read_jobs(jobs, &state.jobs, &count)) {
        state.waiting_count = count;
        state.waiting = calloc(count + 1, sizeof *state.waiting);
        state.started = calloc((size_t)room->cpus, sizeof *state.started);
        state.ends = calloc((size_t)room->cpus, sizeof *state.ends);
        state.running = calloc((size_t)room->cpus, sizeof *state.running);
        if (state.waiting && state.started && state.ends && state.running) {
            for (size_t index = 0; index < count; index++)
                state.waiting[index] = (struct waiting_job){.wall = state.jobs[index].expected_wall,
                                                            .bytes = state.jobs[index].expected_bytes};
            run_all(&state);
            fprintf(report,
                    "{\"jobs\": %zu, \"makespan\": %.6f, \"peak_bytes\": %" PRId64 ", \"passed_over\": %u}\n",
                    count, state.now, state.peak_bytes, state.passed_over);
            status = 0;
        }
    }
    free(state.jobs);
    free(state.waiting);
    free(state.started);
    free(state.ends);
    free(state.running);
    return status;
}
