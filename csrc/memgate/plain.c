#define _GNU_SOURCE /* O_NOFOLLOW, O_CLOEXEC, fdopen */
#include "plain.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

int open_plain(const char *path, int flags) {
    struct stat about;
    /* O_NONBLOCK: the open of a FIFO does not wait for its other end. A regular file does not care. */
    const int file = open(path, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0644);
    if (file < 0)
        return -1;
    if (fstat(file, &about) == 0 && S_ISREG(about.st_mode))
        return file;
    close(file);
    errno = EINVAL;
    return -1;
}

FILE *read_plain(const char *path) {
    const int file = open_plain(path, O_RDONLY);
    FILE *stream = file < 0 ? NULL : fdopen(file, "r");
    if (file >= 0 && stream == NULL)
        close(file);
    return stream;
}
