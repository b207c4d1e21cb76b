#define _GNU_SOURCE /* open file description locks, syscall() */
#include "table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

enum { VERSION = 2, LOCK_OF_TABLE = 0, LOCK_OF_FIRST_PLACE = 1, LINE = 8192 };

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

bool lock_table(int file) {
    return set_lock(file, F_OFD_SETLKW, F_WRLCK, LOCK_OF_TABLE);
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

struct table *open_table(const char *folder, int *file) {
    char path[LINE];
    struct table *table = MAP_FAILED;
    snprintf(path, sizeof path, "%s/table", folder);
    *file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (*file >= 0 && lock_table(*file)) {
        if (has_size(*file) || (ftruncate(*file, 0) == 0 && fill(*file)))
            table = mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED, *file, 0);
        if (table != MAP_FAILED && table->version != VERSION) {
            memset(table, 0, sizeof *table);
            table->version = VERSION;
        }
        const int reason = errno;
        unlock_table(*file);
        errno = reason;
    }
    if (table == MAP_FAILED) {
        fprintf(stderr, "memgate: cannot use %s: %s\n", path, strerror(errno));
        return NULL;
    }
    return table;
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
