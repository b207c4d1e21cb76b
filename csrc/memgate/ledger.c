#define _GNU_SOURCE /* O_NOFOLLOW, O_CLOEXEC */
#include "ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ESCAPED = 6, NUMBERS = 1024 }; /* bytes that one byte can grow to, and room for the rest of the line */

static char *write_string(char *at, const char *text) {
    *at++ = '"';
    for (; *text; text++) {
        const unsigned char byte = (unsigned char)*text;
        if (byte == '"' || byte == '\\') {
            *at++ = '\\';
            *at++ = (char)byte;
        } else if (byte < 0x20) {
            at += sprintf(at, "\\u%04x", byte);
        } else {
            *at++ = (char)byte; /* file names are bytes; a reader decides about those that are not UTF-8 */
        }
    }
    *at++ = '"';
    return at;
}

static char *write_line(char *at, const struct command *command, const struct passage *passage,
                        const struct job *job, const char *note) {
    at += sprintf(at, "{\"output\": ");
    at = write_string(at, command->output);
    at += sprintf(at, ", \"source\": ");
    at = write_string(at, command->source);
    at += sprintf(at, ", \"start\": %.6f, \"wall\": %.6f, \"user\": %.6f, \"system\": %.6f", job->start,
                  job->wall, job->user, job->system);
    at += sprintf(at, ", \"peak_bytes\": %lld, \"tree_bytes\": %lld, \"shared_bytes\": %lld",
                  (long long)job->peak_bytes, (long long)job->tree_bytes, (long long)job->shared_bytes);
    at += sprintf(at, ", \"expected_bytes\": %lld, \"waited\": %.6f, \"lane\": %d, \"attempt\": %d",
                  (long long)passage->expected.bytes, passage->admission.waited, passage->admission.lane,
                  passage->attempt);
    at += sprintf(at, ", \"note\": ");
    at = write_string(at, note);
    at += sprintf(at, ", \"stopped\": %s, \"status\": %d}\n", job->stopped ? "true" : "false", job->status);
    return at;
}

bool append_to_ledger(const char *path, const struct command *command, const struct passage *passage,
                      const struct job *job, const char *note) {
    const size_t texts = strlen(command->output) + strlen(command->source) + strlen(note);
    char *line = malloc(ESCAPED * texts + NUMBERS);
    if (line == NULL)
        return false;
    const size_t length = (size_t)(write_line(line, command, passage, job, note) - line);
    const int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
    bool whole = false;
    if (file >= 0) {
        /* A FIFO is not waited for (O_NONBLOCK). One write with O_APPEND: lines of launchers that end
         * together never mix (POSIX, write()). */
        const ssize_t written = write(file, line, length);
        whole = written == (ssize_t)length;
        if (written >= 0 && !whole)
            errno = ENOSPC;
        const int reason = errno;
        close(file);
        errno = reason;
    }
    free(line);
    return whole;
}
