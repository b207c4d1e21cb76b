/* Which library, and what to say if there is none. */
#include "chooser.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

void append(struct text *text, const char *format, ...) {
    const size_t room = sizeof text->bytes - text->length;
    va_list values;
    va_start(values, format);
    const int wanted = vsnprintf(text->bytes + text->length, room, format, values);
    va_end(values);
    if (wanted > 0)
        text->length += (size_t)wanted < room ? (size_t)wanted : room - 1;
}

static bool has(const struct report *cpu, const char *feature) {
    for (size_t index = 0; index < cpu->count; index++)
        if (strcmp(cpu->features[index], feature) == 0)
            return true;
    return false;
}

bool can_run(const struct report *cpu, const struct library *library) {
    for (const char *const *need = library->needs; *need; need++)
        if (!has(cpu, *need))
            return false;
    return true;
}

/* Its name as the user gives it: BF16 for _C_BF16. */
static const char *isa_of(const struct table *table, const struct library *library) {
    return library->name + strlen(table->module) + 1;
}

static void append_cpu(struct text *text, const struct report *cpu) {
    append(text, "this CPU");
    if (*cpu->model)
        append(text, " (%s%s%s)", cpu->vendor, *cpu->vendor ? " " : "", cpu->model);
}

static void append_missing(struct text *text, const struct report *cpu, const struct library *library) {
    const char *before = "";
    for (const char *const *need = library->needs; *need; need++)
        if (!has(cpu, *need)) {
            append(text, "%s%s", before, *need);
            before = ", ";
        }
}

static void append_all(struct text *text, const struct table *table, const struct report *cpu) {
    for (size_t row = 0; row < table->count; row++) {
        const struct library *library = &table->libraries[row];
        append(text, "%s%s ", row ? ", " : "", isa_of(table, library));
        if (can_run(cpu, library)) {
            append(text, "(runs here)");
        } else {
            append(text, "(needs ");
            append_missing(text, cpu, library);
            append(text, ", which this CPU lacks)");
        }
    }
}

static const struct library *named(const struct table *table, const char *name) {
    for (size_t row = 0; row < table->count; row++) {
        const struct library *library = &table->libraries[row];
        if (strcasecmp(isa_of(table, library), name) == 0 || strcasecmp(library->name, name) == 0)
            return library;
    }
    return NULL;
}

static const struct library *forced(const struct table *table, const struct report *cpu, const char *choice,
                                    struct text *why) {
    const struct library *library = named(table, choice);
    if (library && can_run(cpu, library))
        return library;
    append(why, "%s=%.40s: ", CHOICE, choice);
    if (library) {
        append_cpu(why, cpu);
        append(why, " cannot run that library");
    } else {
        append(why, "this wheel has no such library");
    }
    append(why, "; it has: ");
    append_all(why, table, cpu);
    return NULL;
}

const struct library *choose(const struct table *table, const struct report *cpu, const char *choice,
                             struct text *why) {
    if (choice && *choice)
        return forced(table, cpu, choice, why);
    for (size_t row = 0; row < table->count; row++)
        if (can_run(cpu, &table->libraries[row]))
            return &table->libraries[row];
    append_cpu(why, cpu);
    append(why,
           " can run none of this wheel's kernel libraries; the wheel is for: %s; it has: ", table->target);
    append_all(why, table, cpu);
    return NULL;
}
