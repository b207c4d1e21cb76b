#include "policy.h"

#include <math.h>
#include <stdbool.h>

/* When the job that room is kept for can start, and what is free beside it from then on. */
struct reservation {
    double seconds;
    int64_t spare_bytes;
    int spare_cpus;
};

static int64_t least(int64_t one, int64_t other) {
    return one < other ? one : other;
}

static int64_t need(const struct room *room, const struct waiting_job *job) {
    return least(job->bytes, room->bytes);
}

static double weight(const struct room *room, const struct waiting_job *job) {
    const double of_cpus = 1.0 / room->cpus;
    const double of_memory = (double)need(room, job) / (double)room->bytes;
    return job->wall * (of_cpus > of_memory ? of_cpus : of_memory);
}

static bool is_before(const struct room *room, const struct waiting_job *one,
                      const struct waiting_job *other) {
    const double difference = weight(room, one) - weight(room, other);
    return difference != 0 ? difference > 0 : one->bytes > other->bytes;
}

static int64_t free_bytes(const struct room *room, const struct running_job *running, size_t count) {
    int64_t bytes = room->bytes;
    for (size_t index = 0; index < count; index++)
        bytes -= running[index].bytes;
    return bytes;
}

static ptrdiff_t longest_passed_over(const struct room *room, const struct waiting_job *waiting,
                                     size_t count) {
    ptrdiff_t found = -1;
    for (size_t index = 0; index < count; index++)
        if (waiting[index].passed_over >= (uint64_t)PATIENCE * (uint64_t)room->cpus &&
            (found < 0 || waiting[index].passed_over > waiting[found].passed_over))
            found = (ptrdiff_t)index;
    return found;
}

static double time_left(const struct running_job *job) {
    return job->left > 0 ? job->left : 0;
}

/* Lets the running jobs end, the soonest first, until there is room for one that needs so many bytes. */
static struct reservation reserve(const struct room *room, const struct running_job *running, size_t count,
                                  int64_t bytes) {
    struct reservation kept = {-1, free_bytes(room, running, count), room->cpus - (int)count};
    while (kept.spare_bytes < bytes || kept.spare_cpus < 1) {
        double soonest = HUGE_VAL;
        for (size_t index = 0; index < count; index++)
            if (time_left(&running[index]) > kept.seconds && time_left(&running[index]) < soonest)
                soonest = time_left(&running[index]);
        if (soonest == HUGE_VAL)
            break; /* not even with all of them gone: more is held than there is */
        for (size_t index = 0; index < count; index++)
            if (time_left(&running[index]) == soonest) {
                kept.spare_bytes += running[index].bytes;
                kept.spare_cpus++;
            }
        kept.seconds = soonest;
    }
    kept.spare_bytes -= bytes;
    kept.spare_cpus--;
    return kept;
}

static bool leaves_room(const struct room *room, const struct waiting_job *job,
                        const struct reservation *kept) {
    return job->wall <= kept->seconds || (need(room, job) <= kept->spare_bytes && kept->spare_cpus > 0);
}

static ptrdiff_t first_of(const struct room *room, const struct waiting_job *waiting, size_t count) {
    ptrdiff_t found = -1;
    for (size_t index = 0; index < count; index++)
        if (found < 0 || is_before(room, &waiting[index], &waiting[found]))
            found = (ptrdiff_t)index;
    return found;
}

ptrdiff_t choose_job(const struct room *room, const struct running_job *running, size_t running_count,
                     struct waiting_job *waiting, size_t waiting_count) {
    if (running_count >= (size_t)room->cpus || waiting_count == 0)
        return -1;
    const int64_t bytes = free_bytes(room, running, running_count);
    const ptrdiff_t aged = longest_passed_over(room, waiting, waiting_count);
    const ptrdiff_t first = aged >= 0 ? aged : first_of(room, waiting, waiting_count);
    const int64_t wanted = need(room, &waiting[first]);
    if (wanted <= bytes)
        return first;
    const struct reservation kept = reserve(room, running, running_count, wanted);
    /* From this weight on, others may take what the first one waits for. */
    const double enough = aged >= 0 ? HUGE_VAL : weight(room, &waiting[first]) / LITTLE;
    ptrdiff_t chosen = -1;
    for (size_t index = 0; index < waiting_count; index++) {
        const struct waiting_job *job = &waiting[index];
        if (need(room, job) > bytes || (weight(room, job) < enough && !leaves_room(room, job, &kept)))
            continue;
        if (chosen < 0 || is_before(room, job, &waiting[chosen]))
            chosen = (ptrdiff_t)index;
    }
    for (size_t index = 0; chosen >= 0 && index < waiting_count; index++)
        if (is_before(room, &waiting[index], &waiting[chosen]))
            waiting[index].passed_over++;
    return chosen;
}
