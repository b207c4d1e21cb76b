#include "attempt.h"

#include "command.h"
#include "gate.h"
#include "ledger.h"
#include "note.h"
#include "settings.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MOST_ATTEMPTS = 3, MEBIBYTE = 1 << 20 };

struct gated_job {
    struct command command;
    struct settings settings;
    struct gate *gate; /* NULL: the job starts at once */
    struct passage passage;
    struct job job;
    struct note note;
};

static bool look(void *context, struct tree_memory memory) {
    return report_memory(context, memory);
}

static int run_once(struct gated_job *gated) {
    const struct observer observer = {.look = look, .context = gated->gate};
    if (run_job(gated->command.argv, gated->gate ? &observer : NULL, &gated->job)) {
        take_note(&gated->note);
        return gated->job.status;
    }
    fprintf(stderr, "memgate: cannot start %s: %s\n", gated->command.argv[0], strerror(errno));
    return OWN_FAILURE;
}

static void write_down(const char *ledger, const struct gated_job *gated) {
    if (ledger && !append_to_ledger(ledger, &gated->command, &gated->passage, &gated->job, gated->note.text))
        fprintf(stderr, "memgate: cannot write %s: %s\n", ledger, strerror(errno));
}

static bool ends_for_memory(const struct gated_job *gated, int status, long long kills_before) {
    /* A compiler's driver exits with 1 when its compiler is killed, so the system's own count decides. It may
     * count another job's process: then this one, which failed by itself, is run once more in vain. */
    return status != 0 && (gated->job.stopped || count_oom_kills(&gated->settings) > kills_before);
}

static int64_t largest(const struct job *job) {
    return job->tree_bytes > job->peak_bytes ? job->tree_bytes : job->peak_bytes;
}

/* A job that the watch stopped waits for room like any other, now that its need is known better; one that was
 * stopped twice, or that the system killed, gets all the room. */
static void expect_more(struct gated_job *gated) {
    struct waiting_job *expected = &gated->passage.expected;
    const int64_t more = largest(&gated->job) / 2 * 3; /* it was still growing */
    if (expected->bytes < more)
        expected->bytes = more;
    if (!gated->job.stopped || gated->passage.attempt > 1)
        expected->bytes = gated->settings.room.bytes;
}

static int give_up(const struct gated_job *gated) {
    fprintf(
        stderr,
        "memgate: %s was killed for memory at %lld MiB, though alone: all jobs may take %lld MiB together\n",
        gated->command.output, (long long)(largest(&gated->job) / MEBIBYTE),
        (long long)(gated->settings.room.bytes / MEBIBYTE));
    return 128 + SIGKILL;
}

static int run_when_admitted(struct gated_job *gated, const char *ledger) {
    for (gated->passage.attempt = 1;; gated->passage.attempt++) {
        const bool alone = gated->passage.expected.bytes >= gated->settings.room.bytes;
        switch (pass_gate(gated->gate, gated->passage.expected, &gated->passage.admission)) {
        case ADMITTED:
            break;
        case CALLED_OFF:
            fprintf(stderr, "memgate: not started: another job failed\n");
            return OWN_FAILURE;
        case NO_GATE:
            return OWN_FAILURE;
        }
        const long long kills = count_oom_kills(&gated->settings);
        const int status = run_once(gated);
        write_down(ledger, gated);
        if (!ends_for_memory(gated, status, kills))
            return status;
        if (gated->command.output[0])
            unlink(gated->command.output); /* half-written */
        if (alone || gated->passage.attempt == MOST_ATTEMPTS)
            return give_up(gated);
        expect_more(gated);
        leave_gate(gated->gate);
    }
}

int run_gated(const struct options *options) {
    struct gated_job gated = {.command = read_command(options->argv), .passage.attempt = 1};
    ask_for_note(&gated.note, options->note, options->ledger);
    if (options->gate == NULL) {
        const int status = run_once(&gated);
        write_down(options->ledger, &gated);
        return status;
    }
    if (!read_settings(options->gate, &gated.settings))
        return OWN_FAILURE;
    gated.passage.expected = gated.settings.unknown;
    find_expected(options->gate, gated.command.output, &gated.passage.expected);
    gated.gate = open_gate(options->gate, &gated.settings, options->build ? options->build : "");
    if (gated.gate == NULL)
        return OWN_FAILURE;
    const int status = run_when_admitted(&gated, options->ledger);
    close_gate(gated.gate, status != 0);
    return status;
}
