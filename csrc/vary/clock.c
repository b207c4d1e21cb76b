/* The time of day, CPUWHEELS_VARY_SECONDS ahead.
 *
 * Files keep the times that the kernel gives them, so with a clock that is ahead every file is old, which
 * nothing minds; one that is behind would make all of them files of the future. Clocks that only measure how
 * long something takes are as they are.
 *
 * Known limits: programs that are linked statically, or that ask the kernel without the C library, see the
 * true time. */
#define _GNU_SOURCE

#include "vary.h"

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static _Thread_local int real;

/* Whether the calling thread sees the true time: certificates of servers are valid for months. */
void cpuwheels_real_clock(int wanted);

void cpuwheels_real_clock(int wanted) {
    real = wanted;
}

static time_t ahead(void) {
    static atomic_llong known = -1;
    long long seconds = atomic_load(&known);
    if (seconds < 0) {
        seconds = number_from("CPUWHEELS_VARY_SECONDS");
        atomic_store(&known, seconds);
    }
    return (time_t)seconds;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    int of_the_day = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
    if (result == 0 && of_the_day && !real)
        now->tv_sec += ahead();
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &exact) != 0)
        return -1;
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *copy) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME_COARSE, &now) != 0)
        return (time_t)-1;
    if (copy)
        *copy = now.tv_sec;
    return now.tv_sec;
}

int timespec_get(struct timespec *now, int base) {
    return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, now) == 0 ? base : 0;
}

/* Returns a moment as the kernel counts it. A moment of a clock that counts from the start of the machine is
 * too early to be one of the time of day, and stays. */
static struct timespec true_moment(const struct timespec *moment) {
    struct timespec found = *moment;
    if (found.tv_sec >= ahead())
        found.tv_sec -= ahead();
    return found;
}

/* Of functions that changed their meaning, the newest version on this machine. */
static void *next(const char *name) {
    void *found = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
    return found ? found : dlsym(RTLD_NEXT, name);
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until) {
    int (*const original)(sem_t *, const struct timespec *) = dlsym(RTLD_NEXT, "sem_timedwait");
    struct timespec moment = true_moment(until);
    return original(semaphore, &moment);
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
    int (*const original)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *) =
        next("pthread_cond_timedwait");
    struct timespec moment = true_moment(until);
    return original(condition, mutex, &moment);
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict until) {
    int (*const original)(pthread_mutex_t *, const struct timespec *) =
        dlsym(RTLD_NEXT, "pthread_mutex_timedlock");
    struct timespec moment = true_moment(until);
    return original(mutex, &moment);
}
