/* Feeds memgate's reader of its shared table with tables that nobody would write: FOLDER SEED SECONDS
 * [TABLE...]
 *
 * Compiled together with csrc/memgate but for its main.c, with sanitizers, which end it at the first wrong
 * access or calculation. With -DLIBFUZZER, clang's libFuzzer drives it instead. The tables given are where
 * mutations begin. */
#define _GNU_SOURCE
#include "../../csrc/memgate/gate.h"
#include "../../csrc/memgate/table.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char table_path[4096];
static const char *folder = ".";

static void write_table(const uint8_t *data, size_t size, size_t length) {
    /* Not emptied first: some file systems write such a file to the disk before its next use. */
    const int file = open(table_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (file < 0 || write(file, data, size) != (ssize_t)size || ftruncate(file, (off_t)length) != 0 ||
        close(file) != 0) {
        perror(table_path);
        exit(2);
    }
}

/* What launchers do: ask for the status, pass the gate, tell what the job holds, leave it. */
static void use_table(void) {
    const struct settings settings = {.room = {.cpus = 4, .bytes = INT64_C(1) << 30}, .watch = true};
    struct gate *gate = open_gate(folder, &settings, "build");
    if (gate == NULL)
        return;
    struct gate_job job;
    struct admission admission;
    read_status(gate);
    for (uint32_t next = 0; next_job(gate, &next, &job);)
        if (!(job.expected >= 0) || !(job.age >= 0))
            abort();
    const struct waiting_job wanted = {.wall = 1, .bytes = 1 << 20};
    if (pass_gate(gate, wanted, &admission) == ADMITTED)
        for (int64_t bytes = 0; bytes < 4; bytes++)
            report_memory(gate, (struct tree_memory){.own_bytes = bytes << 28, .shared_bytes = bytes});
    close_gate(gate, true);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    snprintf(table_path, sizeof table_path, "%s/table", folder);
    size_t length = size;
#ifdef LIBFUZZER
    /* It changes small inputs best: the rest of a table is zeros, unless there is almost nothing of one. */
    if (size >= 64 && size < sizeof(struct table))
        length = sizeof(struct table);
#endif
    write_table(data, size, length);
    use_table();
    return 0;
}

#ifndef LIBFUZZER

static uint64_t state; /* xorshift64*, Vigna 2016 */

static uint64_t number(uint64_t below) {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * UINT64_C(2685821657736338717) % below;
}

/* Bytes that calculations stumble over, in any place; most often in the head and the first places. */
static void mutate(uint8_t *data, size_t size) {
    static const uint64_t EDGES[] = {0,
                                     1,
                                     2,
                                     3,
                                     4095,
                                     4096,
                                     4097,
                                     0x7fffffff,
                                     0x80000000,
                                     0xffffffff,
                                     INT64_MAX,
                                     UINT64_C(1) << 63,
                                     UINT64_MAX,
                                     0x7ff0000000000000,
                                     0x7ff8000000000000,
                                     0x7fefffffffffffff};
    for (uint64_t left = 1 + number(16); left > 0; left--) {
        const size_t width = (size_t)1 << number(4);
        const size_t at = number(number(3) ? 2048 : size - 8) & ~(width - 1);
        const uint64_t value = number(2) ? EDGES[number(sizeof EDGES / sizeof *EDGES)] : number(UINT64_MAX);
        if (at + width <= size)
            memcpy(data + at, &value, width);
    }
}

static size_t read_table(const char *path, uint8_t *data, size_t room) {
    FILE *stream = fopen(path, "re");
    const size_t size = stream ? fread(data, 1, room, stream) : 0;
    if (stream)
        fclose(stream);
    return size;
}

int main(int argc, char **argv) {
    if (argc < 4)
        return 2;
    const size_t size = sizeof(struct table);
    uint8_t *data = malloc(size), *first = calloc(1, size);
    if (data == NULL || first == NULL)
        return 2;
    folder = argv[1];
    state = strtoull(argv[2], NULL, 10) * 2 + 1;
    const time_t end = time(NULL) + atoi(argv[3]);
    unsigned long long runs = 0;
    const uint32_t version = TABLE_VERSION;
    for (; time(NULL) < end; runs++) {
        memcpy(data, first, size);
        if (argc > 4)
            read_table(argv[4 + number((uint64_t)argc - 4)], data, size);
        mutate(data, size);
        if (number(8))
            memcpy(data, &version, sizeof version); /* else the table is emptied */
        LLVMFuzzerTestOneInput(data, number(32) ? size : number(size));
    }
    printf("%llu tables\n", runs);
    free(data);
    free(first);
    return 0;
}

#endif
