/* Filling in a report. */
#include "report.h"

void add_feature(struct report *report, const char *name) {
    if (report->count < MAX_FEATURES)
        report->features[report->count++] = name;
}

void add_capabilities(struct report *report, unsigned long word, const struct capability *table,
                      size_t rows) {
    for (size_t row = 0; row < rows; row++)
        if (word >> table[row].bit & 1)
            add_feature(report, table[row].name);
}
