#define _GNU_SOURCE /* wait4 */
#include "job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif

static const int PASSED_ON[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
enum { PASSED_ON_COUNT = sizeof PASSED_ON / sizeof *PASSED_ON };

static const struct itimerval LOOK_EVERY = {.it_interval = {.tv_usec = 50000},
                                            .it_value = {.tv_usec = 50000}};
static const struct itimerval NEVER = {0};

static volatile sig_atomic_t child = 0;

static void pass_on(int number) {
    const int saved = errno;
    if (child > 0)
        kill((pid_t)child, number);
    errno = saved;
}

/* Its only work is that wait4 returns. */
static void wake_up(int number) {
    (void)number;
}

static sigset_t passed_on_set(void) {
    sigset_t set;
    sigemptyset(&set);
    for (int index = 0; index < PASSED_ON_COUNT; index++)
        sigaddset(&set, PASSED_ON[index]);
    return set;
}

static void install_handlers(void) {
    /* Without SA_RESTART: wait4 is called again by hand. */
    struct sigaction action = {.sa_handler = pass_on}, alarm_action = {.sa_handler = wake_up};
    sigaction(SIGALRM, &alarm_action, NULL);
    for (int index = 0; index < PASSED_ON_COUNT; index++) {
        struct sigaction before;
        /* What the caller ignores (nohup) stays ignored, here and in the job. */
        if (sigaction(PASSED_ON[index], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(PASSED_ON[index], &action, NULL);
    }
}

static void become_job(char **argv, pid_t parent, const sigset_t *mask) {
#if defined(__linux__)
    /* A launcher that is killed outright takes its compiler with it. */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(128 + SIGTERM);
#else
    (void)parent;
#endif
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvp(argv[0], argv);
    const int status = errno == ENOENT ? NOT_FOUND : CANNOT_EXECUTE;
    fprintf(stderr, "memgate: cannot run %s: %s\n", argv[0], strerror(errno));
    _exit(status);
}

static double seconds(clockid_t clock) {
    struct timespec now = {0};
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double duration(struct timeval value) {
    return (double)value.tv_sec + (double)value.tv_usec * 1e-6;
}

static int64_t peak_bytes(const struct rusage *usage) {
#if defined(__APPLE__)
    return usage->ru_maxrss; /* bytes; getrusage(2) of macOS */
#else
    return (int64_t)usage->ru_maxrss * 1024; /* kibibytes; getrusage(2) of Linux */
#endif
}

static void look(pid_t pid, const struct observer *observer, struct job *job) {
    const struct tree_memory memory = measure_tree(pid);
    if (memory.own_bytes + memory.shared_bytes > job->tree_bytes) {
        job->tree_bytes = memory.own_bytes + memory.shared_bytes;
        job->shared_bytes = memory.shared_bytes;
    }
    if (observer && observer->look(observer->context, memory)) {
        kill_tree(pid);
        job->stopped = true;
    }
}

bool run_job(char **argv, const struct observer *observer, struct job *job) {
    const pid_t parent = getpid();
    const sigset_t held = passed_on_set();
    sigset_t mask;
    int status = 0;
    struct rusage usage = {0};

    *job = (struct job){.start = seconds(CLOCK_REALTIME)};
    const double began = seconds(CLOCK_MONOTONIC);
    /* Held back until both the child and the handlers are there, so that none is lost in between. */
    sigprocmask(SIG_BLOCK, &held, &mask);
    const pid_t pid = fork();
    if (pid == 0)
        become_job(argv, parent, &mask);
    if (pid < 0) {
        const int reason = errno;
        sigprocmask(SIG_SETMASK, &mask, NULL);
        errno = reason;
        return false;
    }
    child = pid;
    install_handlers();
    sigprocmask(SIG_SETMASK, &mask, NULL);

    setitimer(ITIMER_REAL, &LOOK_EVERY, NULL);
    pid_t ended;
    while ((ended = wait4(pid, &status, 0, &usage)) < 0 && errno == EINTR)
        look(pid, observer, job);
    setitimer(ITIMER_REAL, &NEVER, NULL);
    if (ended < 0)
        return false;
    child = 0; /* its number may belong to another process from now on */
    job->wall = seconds(CLOCK_MONOTONIC) - began;
    job->user = duration(usage.ru_utime);
    job->system = duration(usage.ru_stime);
    job->peak_bytes = peak_bytes(&usage);
    job->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return true;
}
