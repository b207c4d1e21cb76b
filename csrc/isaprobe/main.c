/* Writes the CPU features of this machine as one JSON object to standard output. */
#include "report.h"

#include <stdio.h>
#include <stdlib.h>

static void write_string(const char *text) {
    putchar('"');
    for (; *text; text++) {
        const unsigned char byte = (unsigned char)*text;
        if (byte == '"' || byte == '\\')
            printf("\\%c", byte);
        else if (byte < 0x20 || byte > 0x7e)
            printf("\\u%04x", byte); /* vendor strings are ASCII; anything else is shown, not trusted */
        else
            putchar(byte);
    }
    putchar('"');
}

static const char *truth(bool value) {
    return value ? "true" : "false";
}

static void write_amx(const struct amx *amx) {
    if (!amx->announced) {
        printf("null");
        return;
    }
    printf("{\"enabled\": %s, \"permitted\": %s, \"palette\": ", truth(amx->enabled), truth(amx->permitted));
    if (amx->has_palette)
        printf("{\"tiles\": %u, \"rows\": %u, \"bytes_per_row\": %u}", amx->palette.tiles, amx->palette.rows,
               amx->palette.bytes_per_row);
    else
        printf("null");
    printf("}");
}

int main(void) {
    static struct report report;
    probe(&report);
    printf("{\"architecture\": ");
    write_string(report.architecture);
    printf(", \"vendor\": ");
    write_string(report.vendor);
    printf(", \"model\": ");
    write_string(report.model);
    printf(", \"features\": [");
    for (size_t index = 0; index < report.count; index++) {
        printf("%s", index ? ", " : "");
        write_string(report.features[index]);
    }
    printf("], \"xcr0\": ");
    if (report.has_xcr0)
        printf("\"0x%llx\"", (unsigned long long)report.xcr0);
    else
        printf("null");
    printf(", \"amx\": ");
    write_amx(&report.amx);
    printf("}\n");
    return fflush(stdout) == 0 && !ferror(stdout) ? EXIT_SUCCESS : EXIT_FAILURE;
}
