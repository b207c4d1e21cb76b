/* memgate: runs one compiler or linker job when there is room for it, and writes down what it cost.
 *
 *     memgate [--gate FOLDER] [--ledger FILE] [--note VARIABLE] -- COMMAND [ARGUMENT...]
 *     memgate --status FOLDER
 *     memgate --simulate CPUS BYTES < JOBS
 *
 * Set as CMAKE_<LANG>_COMPILER_LAUNCHER and CMAKE_<LANG>_LINKER_LAUNCHER, with more ninja jobs than there are
 * CPUs: the gate decides which of them run. It exits as the job did, so a build that uses it fails and
 * succeeds exactly where one without it would. gate.h and settings.h say what lies in FOLDER, simulate.h what
 * JOBS are. */
#include "attempt.h"
#include "gate.h"
#include "number.h"
#include "settings.h"
#include "simulate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool read_options(char **argv, struct options *options) {
    char **word = argv + 1;
    for (; *word && strcmp(*word, "--") != 0; word++) {
        const char **value = strcmp(*word, "--ledger") == 0 ? &options->ledger
                             : strcmp(*word, "--gate") == 0 ? &options->gate
                             : strcmp(*word, "--note") == 0 ? &options->note
                                                            : NULL;
        if (value == NULL || word[1] == NULL)
            return false;
        *value = *++word;
    }
    if (*word == NULL || word[1] == NULL)
        return false;
    options->argv = word + 1;
    return true;
}

static bool read_room(int argc, char **argv, struct room *room) {
    if (argc != 4 || strcmp(argv[1], "--simulate") != 0)
        return false;
    room->cpus = read_cpus(argv[2]);
    room->bytes = read_bytes(argv[3], NULL);
    return room->cpus > 0 && room->bytes > 0;
}

/* Writes one JSON object: how many jobs run and wait, the bytes they hold now and the most they held
 * together, and of each one that runs the expected seconds, as they were read, and those since its start. */
static int print_status(const char *folder) {
    struct settings settings;
    struct gate *gate = read_settings(folder, &settings) ? open_gate(folder, &settings, "") : NULL;
    if (gate == NULL)
        return OWN_FAILURE;
    const struct gate_status status = read_status(gate);
    printf("{\"running\": %u, \"waiting\": %u, \"bytes\": %" PRId64 ", \"peak_bytes\": %" PRId64
           ", \"jobs\": [",
           status.running, status.waiting, status.bytes, status.peak_bytes);
    struct gate_job job;
    const char *between = "";
    for (uint32_t next = 0; next_job(gate, &next, &job); between = ", ")
        printf("%s{\"expected\": %.17g, \"age\": %.3f}", between, job.expected, job.age);
    printf("]}\n");
    return 0;
}

int main(int argc, char **argv) {
    struct options options = {.build = getenv("MEMGATE_BUILD")};
    struct room room;
    if (read_room(argc, argv, &room))
        return simulate(&room, stdin, stdout);
    if (argc == 3 && strcmp(argv[1], "--status") == 0)
        return print_status(argv[2]);
    if (argc > 0 && read_options(argv, &options))
        return run_gated(&options);
    fprintf(stderr,
            "usage: memgate [--gate FOLDER] [--ledger FILE] [--note VARIABLE] -- COMMAND [ARGUMENT...]\n"
            "       memgate --status FOLDER\n"
            "       memgate --simulate CPUS BYTES < JOBS\n");
    return OWN_FAILURE;
}
