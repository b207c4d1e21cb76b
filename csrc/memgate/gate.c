#define _GNU_SOURCE /* clock_gettime */
#include "gate.h"

#include "number.h"
#include "table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const double SWEEP_SECONDS = 1.0;     /* how soon the room of a launcher that was killed is found */
static const double SHORTEST_SECONDS = 1e-3; /* between two looks; they come every 50 ms */
static const double AHEAD_SECONDS = 0.2;     /* four looks: on a busy machine a launcher wakes up late */

struct gate {
    struct settings settings;
    struct table *table;
    int file;   /* for the table's lock; closed in the job */
    int holder; /* for the lock of the place; inherited by the job */
    struct place *place;
    struct waiting_job job; /* that the place is for */
    double since;           /* when it was admitted */
    double looked;          /* when report_memory was last called for this place; 0 if it was not */
    char build[BUILD_NAME];
};

struct gate *open_gate(const char *folder, const struct settings *settings, const char *build) {
    struct gate *gate = calloc(1, sizeof *gate);
    if (gate == NULL)
        return NULL;
    gate->settings = *settings;
    snprintf(gate->build, sizeof gate->build, "%s", build);
    gate->table = open_table(folder, &gate->file, &gate->holder);
    if (gate->table == NULL) {
        free(gate);
        return NULL;
    }
    return gate;
}

static double now(void) {
    struct timespec time = {0};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static uint32_t number(const struct gate *gate, const struct place *place) {
    return (uint32_t)(place - gate->table->places);
}

/* Frees the places whose launchers and jobs are all gone. */
static void sweep(struct gate *gate) {
    for (uint32_t index = 0; index < used_places(gate->table); index++) {
        struct place *place = &gate->table->places[index];
        if (atomic_load(&place->state) != FREE && !is_held(gate->file, index))
            atomic_store(&place->state, FREE);
    }
    atomic_store(&gate->table->swept, now());
}

static int64_t read_number(const _Atomic int64_t *bytes) {
    return bounded_bytes(atomic_load(bytes));
}

static int64_t held_bytes(const struct place *place) {
    const int64_t measured = read_number(&place->own_bytes) + read_number(&place->shared_bytes) +
                             read_number(&place->growth_bytes);
    const int64_t expected = bounded_bytes(place->bytes);
    return expected > measured ? expected : measured;
}

static int32_t free_lane(const struct table *table) {
    for (int32_t lane = 0;; lane++) {
        bool taken = false;
        for (uint32_t index = 0; index < used_places(table) && !taken; index++)
            taken = atomic_load(&table->places[index].state) == RUNNING && table->places[index].lane == lane;
        if (!taken)
            return lane;
    }
}

static void admit(struct gate *gate, struct place *place) {
    place->lane = free_lane(gate->table);
    place->order = ++gate->table->admitted;
    place->since = now();
    atomic_store(&place->state, RUNNING);
    wake(place);
}

/* Starts every job that the policy lets start now. The caller has the table's lock. */
static void admit_all(struct gate *gate) {
    static struct running_job running[PLACES];
    static struct waiting_job waiting[PLACES];
    static struct place *waiting_places[PLACES];
    ptrdiff_t chosen;
    do {
        size_t running_count = 0, waiting_count = 0;
        for (uint32_t index = 0; index < used_places(gate->table); index++) {
            struct place *place = &gate->table->places[index];
            const uint32_t state = atomic_load(&place->state);
            if (state == RUNNING) {
                running[running_count++] = (struct running_job){
                    .left = bounded_seconds(place->since + place->wall - now()), .bytes = held_bytes(place)};
            } else if (state == WAITING) {
                waiting_places[waiting_count] = place;
                waiting[waiting_count++] = (struct waiting_job){.wall = bounded_seconds(place->wall),
                                                                .bytes = bounded_bytes(place->bytes),
                                                                .passed_over = place->passed_over};
            }
        }
        chosen = choose_job(&gate->settings.room, running, running_count, waiting, waiting_count);
        for (size_t index = 0; index < waiting_count; index++)
            waiting_places[index]->passed_over = waiting[index].passed_over;
        if (chosen >= 0)
            admit(gate, waiting_places[chosen]);
    } while (chosen >= 0);
}

static bool take_place(struct gate *gate, const struct waiting_job *job) {
    for (uint32_t index = 0; index < PLACES; index++) {
        struct place *place = &gate->table->places[index];
        /* What stands beyond the used places means nothing. */
        if ((index < used_places(gate->table) && atomic_load(&place->state) != FREE) ||
            !hold_place(gate->holder, index))
            continue;
        memset(place, 0, sizeof *place);
        place->wall = job->wall;
        place->bytes = job->bytes;
        memcpy(place->build, gate->build, sizeof place->build);
        for (uint32_t next = used_places(gate->table); next < index; next++)
            atomic_store(&gate->table->places[next].state, FREE); /* held by a job that enters itself again */
        if (index >= used_places(gate->table))
            gate->table->used = index + 1;
        gate->place = place;
        gate->job = *job;
        gate->looked = 0;
        atomic_store(&place->state, WAITING);
        return true;
    }
    fprintf(stderr, "memgate: more than %d jobs at once; start fewer\n", PLACES);
    return false;
}

static void count_anew(struct gate *gate) {
    if (strncmp(gate->table->build, gate->build, BUILD_NAME) == 0)
        return;
    memcpy(gate->table->build, gate->build, sizeof gate->build);
    atomic_store(&gate->table->peak_bytes, 0);
}

static bool is_called_off(const struct gate *gate) {
    return gate->build[0] && strncmp(gate->table->failed_build, gate->build, BUILD_NAME) == 0;
}

enum verdict pass_gate(struct gate *gate, struct waiting_job job, struct admission *admission) {
    const double began = now();
    if (!lock_table(gate->file)) {
        fprintf(stderr, "memgate: cannot lock the table: %s\n", strerror(errno));
        return NO_GATE;
    }
    if (is_called_off(gate)) {
        unlock_table(gate->file);
        return CALLED_OFF;
    }
    count_anew(gate);
    sweep(gate);
    const bool taken = take_place(gate, &job);
    if (taken)
        admit_all(gate);
    unlock_table(gate->file);
    if (!taken)
        return NO_GATE;

    while (atomic_load(&gate->place->state) == WAITING) {
        wait_for_change(gate->place, WAITING, SWEEP_SECONDS);
        const double since_sweep = now() - atomic_load(&gate->table->swept);
        if (since_sweep >= 0 && since_sweep < SWEEP_SECONDS)
            continue; /* below 0: the table is from before a restart of the machine */
        if (lock_table(gate->file)) {
            sweep(gate);
            admit_all(gate);
            unlock_table(gate->file);
        }
    }
    gate->since = now();
    admission->waited = gate->since - began;
    admission->lane = gate->place->lane;
    switch (atomic_load(&gate->place->state)) {
    case RUNNING:
        return ADMITTED;
    case OFF:
        return CALLED_OFF;
    default: /* somebody emptied the table; the place is free again, and its lock still held */
        release_place(gate->holder, number(gate, gate->place));
        return pass_gate(gate, job, admission);
    }
}

/* Pages of files are mostly the same ones in every compiler, so only the largest count. */
static struct gate_status sum_up(const struct table *table) {
    struct gate_status sum = {.peak_bytes = read_number(&table->peak_bytes)};
    int64_t shared = 0;
    for (uint32_t index = 0; index < used_places(table); index++) {
        const struct place *place = &table->places[index];
        const uint32_t state = atomic_load(&place->state);
        sum.waiting += state == WAITING;
        if (state != RUNNING)
            continue;
        sum.running++;
        sum.bytes += read_number(&place->own_bytes);
        if (read_number(&place->shared_bytes) > shared)
            shared = read_number(&place->shared_bytes);
    }
    sum.bytes += shared;
    return sum;
}

struct gate_status read_status(struct gate *gate) {
    return sum_up(gate->table);
}

bool next_job(struct gate *gate, uint32_t *next, struct gate_job *job) {
    while (*next < used_places(gate->table)) {
        const struct place *place = &gate->table->places[(*next)++];
        if (atomic_load(&place->state) != RUNNING)
            continue;
        *job = (struct gate_job){.expected = bounded_seconds(place->wall),
                                 .age = bounded_seconds(now() - place->since)};
        return true;
    }
    return false;
}

static bool is_newest(const struct table *table, const struct place *own) {
    for (uint32_t index = 0; index < used_places(table); index++)
        if (atomic_load(&table->places[index].state) == RUNNING && table->places[index].order > own->order)
            return false;
    return true;
}

/* What all jobs will have taken in a moment, if they go on as they did since their last look. */
static int64_t growth(const struct table *table) {
    int64_t bytes = 0;
    for (uint32_t index = 0; index < used_places(table); index++)
        if (atomic_load(&table->places[index].state) == RUNNING)
            bytes += read_number(&table->places[index].growth_bytes);
    return bytes;
}

/* Enters this job again into a table that was emptied while it ran: what it holds has to count. */
static void enter_again(struct gate *gate) {
    struct place *own = gate->place;
    if (!lock_table(gate->file))
        return;
    gate->table->version = TABLE_VERSION;
    if (number(gate, own) >= used_places(gate->table))
        gate->table->used = number(gate, own) + 1;
    own->wall = gate->job.wall;
    own->bytes = gate->job.bytes;
    own->since = gate->since;
    own->order = ++gate->table->admitted;
    memcpy(own->build, gate->build, sizeof own->build);
    atomic_store(&own->state, RUNNING);
    unlock_table(gate->file);
}

bool report_memory(struct gate *gate, struct tree_memory memory) {
    struct place *own = gate->place;
    if (atomic_load(&own->state) != RUNNING)
        enter_again(gate);
    const int64_t grown = memory.own_bytes - read_number(&own->own_bytes);
    const double passed = gate->looked > 0 ? now() - gate->looked : AHEAD_SECONDS;
    gate->looked = now();
    atomic_store(&own->own_bytes, memory.own_bytes);
    atomic_store(&own->shared_bytes, memory.shared_bytes);
    atomic_store(&own->growth_bytes, grown > 0 && passed > SHORTEST_SECONDS
                                         ? bounded_bytes((int64_t)((double)grown / passed * AHEAD_SECONDS))
                                         : 0);
    const struct gate_status all = sum_up(gate->table);
    int64_t peak = atomic_load(&gate->table->peak_bytes);
    while (all.bytes > peak && !atomic_compare_exchange_weak(&gate->table->peak_bytes, &peak, all.bytes)) {
    }
    return gate->settings.watch && all.bytes + growth(gate->table) > gate->settings.room.bytes &&
           is_newest(gate->table, own);
}

static void call_off_others(struct gate *gate) {
    memcpy(gate->table->failed_build, gate->build, sizeof gate->build);
    for (uint32_t index = 0; gate->build[0] && index < used_places(gate->table); index++) {
        struct place *place = &gate->table->places[index];
        uint32_t waiting = WAITING;
        if (strncmp(place->build, gate->build, BUILD_NAME) == 0 &&
            atomic_compare_exchange_strong(&place->state, &waiting, OFF))
            wake(place);
    }
}

static void leave(struct gate *gate, bool failed) {
    if (!lock_table(gate->file))
        return; /* the system releases the place with this process */
    if (gate->place) {
        atomic_store(&gate->place->state, FREE);
        release_place(gate->holder, number(gate, gate->place));
        gate->place = NULL;
    }
    if (failed)
        call_off_others(gate);
    admit_all(gate);
    unlock_table(gate->file);
}

void leave_gate(struct gate *gate) {
    leave(gate, false);
}

void close_gate(struct gate *gate, bool failed) {
    leave(gate, failed);
    close_table(gate->table, gate->file, gate->holder);
    free(gate);
}
