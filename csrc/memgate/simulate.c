#include "simulate.h"

#include "job.h"
#include "known.h"

#include <inttypes.h>
#include <stdlib.h>

struct simulation {
    const struct room *room;
    const struct known_jobs *known;
    double now;
    struct waiting_job *waiting;
    size_t *waiting_jobs; /* waiting_jobs[i] is the index of the job that waiting[i] is of */
    size_t waiting_count;
    struct running_job *running;
    size_t *running_jobs; /* likewise */
    double *ends;
    size_t running_count;
    int64_t bytes, peak_bytes;
    unsigned passed_over;
};

static void let_wait(struct simulation *state, size_t job) {
    const struct known_job *known = &state->known->jobs[job];
    state->waiting_jobs[state->waiting_count] = job;
    state->waiting[state->waiting_count++] =
        (struct waiting_job){.wall = known->expected_wall, .bytes = known->expected_bytes};
}

static void start(struct simulation *state, size_t index) {
    const size_t job = state->waiting_jobs[index];
    const struct known_job *known = &state->known->jobs[job];
    const int64_t held =
        known->expected_bytes < state->room->bytes ? known->expected_bytes : state->room->bytes;
    if (state->waiting[index].passed_over > state->passed_over)
        state->passed_over = state->waiting[index].passed_over;
    state->running_jobs[state->running_count] = job;
    state->ends[state->running_count] = state->now + known->wall;
    state->running[state->running_count++] =
        (struct running_job){.left = known->expected_wall, .bytes = held};
    state->waiting_jobs[index] = state->waiting_jobs[--state->waiting_count];
    state->waiting[index] = state->waiting[state->waiting_count];
    state->bytes += known->bytes;
    if (state->bytes > state->peak_bytes)
        state->peak_bytes = state->bytes;
}

/* Lets those jobs wait for room that waited for this one alone. */
static void release(struct simulation *state, size_t ended) {
    for (size_t index = 0; index < state->known->order_count; index++) {
        const struct order *order = &state->known->orders[index];
        if (order->before == ended && --state->known->jobs[order->after].unfinished == 0)
            let_wait(state, order->after);
    }
}

static void end_next(struct simulation *state) {
    size_t next = 0;
    for (size_t index = 1; index < state->running_count; index++)
        if (state->ends[index] < state->ends[next])
            next = index;
    const size_t ended = state->running_jobs[next];
    const double passed = state->ends[next] - state->now;
    state->now = state->ends[next];
    state->bytes -= state->known->jobs[ended].bytes;
    state->running_count--;
    state->running_jobs[next] = state->running_jobs[state->running_count];
    state->ends[next] = state->ends[state->running_count];
    state->running[next] = state->running[state->running_count];
    for (size_t index = 0; index < state->running_count; index++)
        state->running[index].left -= passed;
    release(state, ended);
}

static void run_all(struct simulation *state) {
    for (size_t job = 0; job < state->known->count; job++)
        if (state->known->jobs[job].unfinished == 0)
            let_wait(state, job);
    while (state->waiting_count || state->running_count) {
        ptrdiff_t chosen;
        while ((chosen = choose_job(state->room, state->running, state->running_count, state->waiting,
                                    state->waiting_count)) >= 0)
            start(state, (size_t)chosen);
        end_next(state);
    }
}

int simulate(const struct room *room, FILE *jobs, FILE *report) {
    struct known_jobs known = {0};
    struct simulation state = {.room = room, .known = &known};
    int status = OWN_FAILURE;
    if (read_known_jobs(jobs, &known)) {
        state.waiting = calloc(known.count + 1, sizeof *state.waiting);
        state.waiting_jobs = calloc(known.count + 1, sizeof *state.waiting_jobs);
        state.running = calloc(known.count + 1, sizeof *state.running);
        state.running_jobs = calloc(known.count + 1, sizeof *state.running_jobs);
        state.ends = calloc(known.count + 1, sizeof *state.ends);
        if (state.waiting && state.waiting_jobs && state.running && state.running_jobs && state.ends) {
            run_all(&state);
            fprintf(report,
                    "{\"jobs\": %zu, \"makespan\": %.6f, \"peak_bytes\": %" PRId64 ", \"passed_over\": %u}\n",
                    known.count, state.now, state.peak_bytes, state.passed_over);
            status = 0;
        }
    }
    free(state.waiting);
    free(state.waiting_jobs);
    free(state.running);
    free(state.running_jobs);
    free(state.ends);
    free_known_jobs(&known);
    return status;
}
