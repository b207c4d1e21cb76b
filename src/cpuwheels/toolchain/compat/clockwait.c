/* glibc 2.30: waiting until a time of a chosen clock. libstdc++'s headers call these from wait_for and the like.
   As libstdc++ itself did before, the deadline is translated to the real-time clock once; a clock set meanwhile
   ends the wait early or late, and callers look at their own clock again. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <time.h>

#define BILLION 1000000000L

static int on_real_time(clockid_t clock, const struct timespec *deadline, struct timespec *translated) {
  struct timespec here, real;
  if (clock == CLOCK_REALTIME) {
    *translated = *deadline;
    return 0;
  }
  if (clock_gettime(clock, &here) != 0 || clock_gettime(CLOCK_REALTIME, &real) != 0) return EINVAL;
  translated->tv_sec = deadline->tv_sec - here.tv_sec + real.tv_sec;
  translated->tv_nsec = deadline->tv_nsec - here.tv_nsec + real.tv_nsec;
  while (translated->tv_nsec < 0) {
    translated->tv_nsec += BILLION;
    --translated->tv_sec;
  }
  while (translated->tv_nsec >= BILLION) {
    translated->tv_nsec -= BILLION;
    ++translated->tv_sec;
  }
  return 0;
}

int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
                           const struct timespec *deadline) {
  struct timespec real;
  int fault = on_real_time(clock, deadline, &real);
  return fault ? fault : pthread_cond_timedwait(condition, mutex, &real);
}

int pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *deadline) {
  struct timespec real;
  int fault = on_real_time(clock, deadline, &real);
  return fault ? fault : pthread_mutex_timedlock(mutex, &real);
}

int pthread_rwlock_clockrdlock(pthread_rwlock_t *lock, clockid_t clock, const struct timespec *deadline) {
  struct timespec real;
  int fault = on_real_time(clock, deadline, &real);
  return fault ? fault : pthread_rwlock_timedrdlock(lock, &real);
}

int pthread_rwlock_clockwrlock(pthread_rwlock_t *lock, clockid_t clock, const struct timespec *deadline) {
  struct timespec real;
  int fault = on_real_time(clock, deadline, &real);
  return fault ? fault : pthread_rwlock_timedwrlock(lock, &real);
}
