#include "settings.h"

#include "number.h"
#include "plain.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { LINE = 8192 }; /* bytes; a path may have 4096 (PATH_MAX of Linux) */

static const char *const EVERYONES_EVENTS = "/proc/vmstat";

static FILE *open_in(const char *folder, const char *name) {
    char path[LINE];
    const int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (length < 0 || (size_t)length >= sizeof path) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    return read_plain(path);
}

static void read_setting(const char *name, const char *value, struct settings *settings) {
    if (strcmp(name, "cpus") == 0)
        settings->room.cpus = read_cpus(value);
    else if (strcmp(name, "bytes") == 0)
        settings->room.bytes = read_bytes(value, NULL);
    else if (strcmp(name, "watch") == 0)
        settings->watch = read_cpus(value) != 0;
    else if (strcmp(name, "unknown_seconds") == 0)
        settings->unknown.wall = read_seconds(value, NULL);
    else if (strcmp(name, "unknown_bytes") == 0)
        settings->unknown.bytes = read_bytes(value, NULL);
    else if (strcmp(name, "oom_events") == 0)
        snprintf(settings->oom_events, sizeof settings->oom_events, "%s", value);
}

bool read_settings(const char *folder, struct settings *settings) {
    char line[LINE];
    FILE *stream = open_in(folder, "settings");
    if (stream == NULL) {
        fprintf(stderr, "memgate: cannot read %s/settings: %s\n", folder, strerror(errno));
        return false;
    }
    memset(settings, 0, sizeof *settings);
    while (fgets(line, sizeof line, stream)) {
        line[strcspn(line, "\n")] = '\0';
        char *blank = strchr(line, ' ');
        if (blank == NULL)
            continue;
        *blank = '\0';
        read_setting(line, blank + 1, settings);
    }
    fclose(stream);
    if (settings->room.cpus < 1 || settings->room.bytes < 1) {
        fprintf(stderr, "memgate: %s/settings: cpus and bytes must be there and above 0\n", folder);
        return false;
    }
    return true;
}

bool find_expected(const char *folder, const char *output, struct waiting_job *job) {
    char line[LINE];
    bool found = false;
    FILE *stream = open_in(folder, "expected");
    if (stream == NULL)
        return false; /* nothing is known yet */
    while (!found && fgets(line, sizeof line, stream)) {
        char *after_seconds, *after_bytes;
        line[strcspn(line, "\n")] = '\0';
        const double wall = read_seconds(line, &after_seconds);
        const int64_t bytes = read_bytes(after_seconds, &after_bytes);
        if (after_seconds == line || after_bytes == after_seconds || *after_bytes != ' ' ||
            strcmp(after_bytes + 1, output) != 0)
            continue;
        *job = (struct waiting_job){.wall = wall, .bytes = bytes};
        found = true;
    }
    fclose(stream);
    return found;
}

long long count_oom_kills(const struct settings *settings) {
    char line[256];
    long long count = 0;
    FILE *stream = settings->oom_events[0] ? read_plain(settings->oom_events) : NULL;
    if (stream == NULL)
        stream = read_plain(EVERYONES_EVENTS);
    if (stream == NULL)
        return 0;
    while (fgets(line, sizeof line, stream))
        if (sscanf(line, "oom_kill %lld", &count) == 1)
            break;
    fclose(stream);
    return count;
}
