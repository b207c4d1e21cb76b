#define _GNU_SOURCE /* open file description locks, syscall() */
#include "table.h"

#include "job.h"
#include "plain.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

#ifndef LOCK_SECONDS /* the tests have less patience */
#define LOCK_SECONDS 120
#endif

enum { LOCK_OF_TABLE = 0, LOCK_OF_FIRST_PLACE = 1, LINE = 8192, MOST_WHOLE = 1000 };

/* Open file description locks belong to what open() made, not to a process: children share them (fcntl(2)).
 */
static bool set_lock(int file, int command, short kind, off_t byte) {
    struct flock lock = {.l_type = kind, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    int done;
    do
        done = fcntl(file, command, &lock);
    while (done < 0 && errno == EINTR);
    return done == 0;
}

static void wake_up(int number) {
    (void)number;
}

/* SIGALRM once a second ends the wait for the lock, to look at the clock; a timer that runs already does as
 * well. */
bool lock_table(int file) {
    const struct itimerval every_second = {.it_interval = {.tv_sec = 1}, .it_value = {.tv_sec = 1}},
                           never = {0};
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = LOCK_OF_TABLE, .l_len = 1};
    struct sigaction action = {.sa_handler = wake_up}, before;
    struct itimerval timer;
    if (fcntl(file, F_OFD_SETLK, &lock) == 0)
        return true;
    getitimer(ITIMER_REAL, &timer);
    const bool idle = timer.it_value.tv_sec == 0 && timer.it_value.tv_usec == 0;
    const time_t end = time(NULL) + LOCK_SECONDS;
    int done;
    sigaction(SIGALRM, &action, &before);
    if (idle)
        setitimer(ITIMER_REAL, &every_second, NULL);
    do
        done = fcntl(file, F_OFD_SETLKW, &lock);
    while (done < 0 && errno == EINTR && time(NULL) < end);
    const int reason = errno == EINTR ? ETIMEDOUT : errno;
    if (idle)
        setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &before, NULL);
    errno = reason;
    return done == 0;
}

void unlock_table(int file) {
    set_lock(file, F_OFD_SETLK, F_UNLCK, LOCK_OF_TABLE);
}

bool hold_place(int holder, uint32_t place) {
    return set_lock(holder, F_OFD_SETLK, F_WRLCK, LOCK_OF_FIRST_PLACE + (off_t)place);
}

void release_place(int holder, uint32_t place) {
    set_lock(holder, F_OFD_SETLK, F_UNLCK, LOCK_OF_FIRST_PLACE + (off_t)place);
}

bool is_held(int file, uint32_t place) {
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = LOCK_OF_FIRST_PLACE + (off_t)place, .l_len = 1};
    return fcntl(file, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

/* Written, not only lengthened: a page that the disk has no room for would end the process when it is
 * touched. */
static bool fill(int file) {
    static const char zeros[1 << 16];
    size_t left = sizeof(struct table);
    if (lseek(file, 0, SEEK_SET) != 0)
        return false;
    while (left > 0) {
        const ssize_t written = write(file, zeros, left < sizeof zeros ? left : sizeof zeros);
        if (written <= 0) {
            errno = written == 0 ? ENOSPC : errno;
            return false;
        }
        left -= (size_t)written;
    }
    return true;
}

static bool has_size(int file) {
    return lseek(file, 0, SEEK_END) == (off_t)sizeof(struct table);
}

static int mapped = -1; /* the table's file, for the handler */

/* The file was cut short behind the mapping's back. With its length it gets zeros, and the access is done
 * again. If it has its length, another launcher may have given it that since, and the access is done again
 * too: but not for ever, for then the disk has no room for a page of it. */
static void lengthen(int number) {
    static const char message[] = "memgate: the gate's table cannot be read\n";
    static volatile sig_atomic_t whole = 0; /* how often the file had its length */
    struct stat about;
    const int saved = errno;
    (void)number;
    if (fstat(mapped, &about) == 0 &&
        (about.st_size < (off_t)sizeof(struct table) ? ftruncate(mapped, (off_t)sizeof(struct table)) == 0
                                                     : whole++ < MOST_WHOLE)) {
        errno = saved;
        return;
    }
    if (write(STDERR_FILENO, message, sizeof message - 1) < 0)
        _exit(OWN_FAILURE);
    _exit(OWN_FAILURE);
}

/* Whether it is the only name of a file of this user: nobody else's file is overwritten. */
static bool is_own(int file) {
    struct stat about;
    if (fstat(file, &about) != 0)
        return false;
    errno = EPERM;
    return about.st_nlink == 1 && about.st_uid == geteuid();
}

uint32_t used_places(const struct table *table) {
    return table->used < PLACES ? table->used : PLACES;
}

/* Opens the same file once more, for locks of its own. The job inherits this descriptor. */
static bool open_again(const char *path, int file, int *holder) {
    struct stat one, other;
    *holder = open_plain(path, O_RDWR);
    if (*holder < 0 || fcntl(*holder, F_SETFD, 0) != 0 || fstat(file, &one) != 0 ||
        fstat(*holder, &other) != 0)
        return false;
    errno = ESTALE;
    return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

static void close_both(int file, int holder) {
    const int reason = errno;
    if (file >= 0)
        close(file);
    if (holder >= 0)
        close(holder);
    errno = reason;
}

struct table *open_table(const char *folder, int *file, int *holder) {
    char path[LINE];
    const struct sigaction action = {.sa_handler = lengthen};
    struct table *table = MAP_FAILED;
    *file = *holder = -1;
    errno = ENAMETOOLONG;
    if ((size_t)snprintf(path, sizeof path, "%s/table", folder) < sizeof path)
        *file = open_plain(path, O_RDWR | O_CREAT);
    if (*file >= 0 && is_own(*file) && open_again(path, *file, holder) && lock_table(*file)) {
        mapped = *file;
        sigaction(SIGBUS, &action, NULL);
        if (has_size(*file) || (ftruncate(*file, 0) == 0 && fill(*file)))
            table = mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED, *file, 0);
        if (table != MAP_FAILED && table->version != TABLE_VERSION) {
            memset(table, 0, sizeof *table);
            table->version = TABLE_VERSION;
        }
        const int reason = errno;
        unlock_table(*file);
        errno = reason;
    }
    if (table == MAP_FAILED) {
        fprintf(stderr, "memgate: cannot use %s: %s\n", path, strerror(errno));
        close_both(*file, *holder);
        return NULL;
    }
    return table;
}

void close_table(struct table *table, int file, int holder) {
    munmap(table, sizeof *table);
    close_both(file, holder);
}

#if defined(__linux__)

/* Not FUTEX_PRIVATE_FLAG: the word lies in a file that other processes map (futex(2)). */
void wait_for_change(struct place *place, uint32_t state, double seconds) {
    const struct timespec patience = {.tv_sec = (time_t)seconds,
                                      .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    syscall(SYS_futex, &place->state, FUTEX_WAIT, state, &patience, NULL, 0);
}

void wake(struct place *place) {
    syscall(SYS_futex, &place->state, FUTEX_WAKE, 1, NULL, NULL, 0);
}

#else

/* Other systems have no such call to offer for a file; looking again costs little, since compilers run for
 * seconds. */
void wait_for_change(struct place *place, uint32_t state, double seconds) {
    const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
    for (double waited = 0; waited < seconds && atomic_load(&place->state) == state; waited += 0.01)
        nanosleep(&pause, NULL);
}

void wake(struct place *place) {
    (void)place;
}

#endif
