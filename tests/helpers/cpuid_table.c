/* A processor made up by a test: the answers of isaprobe's processor.h, from the file that CPUID_TABLE names.
 *
 * Its lines are `LEAF SUBLEAF EAX EBX ECX EDX`, `xcr0 VALUE` and `tiles GRANTED`; a subleaf of `any` answers
 * all. */
#include "processor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 64 };

static struct row {
    uint32_t leaf, subleaf;
    bool any;
    uint32_t words[4];
} rows[ROWS];
static size_t count;
static unsigned long long xcr0;
static unsigned tiles;

static _Noreturn void fail(const char *why) {
    fprintf(stderr, "cpuid_table: %s\n", why);
    exit(99);
}

static void read_row(const char *line) {
    struct row row = {0};
    char subleaf[16];
    uint32_t *words = row.words;
    if (count == ROWS || sscanf(line, "%x %15s %x %x %x %x", &row.leaf, subleaf, &words[EAX], &words[EBX],
                                &words[ECX], &words[EDX]) != 6)
        fail(line);
    row.any = strcmp(subleaf, "any") == 0;
    row.subleaf = row.any ? 0 : (uint32_t)strtoul(subleaf, NULL, 16);
    rows[count++] = row;
}

static void read_table(void) {
    char line[256];
    const char *path = getenv("CPUID_TABLE");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (count)
        return;
    if (!file)
        fail("CPUID_TABLE names no file");
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "xcr0 %llx", &xcr0) != 1 && sscanf(line, "tiles %u", &tiles) != 1)
            read_row(line);
    fclose(file);
}

static const struct row *find(uint32_t leaf, uint32_t subleaf) {
    for (size_t index = 0; index < count; index++)
        if (rows[index].leaf == leaf && (rows[index].any || rows[index].subleaf == subleaf))
            return &rows[index];
    return NULL;
}

static uint32_t word(uint32_t leaf, enum output output) {
    const struct row *row = find(leaf, 0);
    return row ? row->words[output] : 0;
}

void execute_cpuid(uint32_t leaf, uint32_t subleaf, uint32_t words[4]) {
    read_table();
    const uint32_t basic = word(0, EAX);
    const bool beyond = leaf > (leaf >> 31 ? word(0x80000000, EAX) : basic);
    const bool amd = word(0, EBX) == 0x68747541; /* "Auth" of AuthenticAMD: zeros beyond the highest leaf */
    /* Intel SDM volume 2A, "CPUID": beyond the highest basic or extended leaf, the data of the highest basic
     * leaf, with whatever it makes of ECX; of an invalid subleaf, zeros. */
    const struct row *row = beyond && amd ? NULL : find(beyond ? basic : leaf, subleaf);
    if (row)
        memcpy(words, row->words, sizeof row->words);
    else
        memset(words, 0, sizeof row->words);
}

uint64_t read_xcr0(void) {
    read_table();
    if (!(word(1, ECX) >> 27 & 1))
        fail("XGETBV is not there without OSXSAVE");
    return xcr0;
}

bool request_tiles(void) {
    read_table();
    if ((xcr0 & 0x60000) != 0x60000)
        fail("tiles are asked for, but their state is not enabled");
    return tiles != 0;
}
