#define _GNU_SOURCE /* setenv */
#include "note.h"

#include "plain.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void ask_for_note(struct note *note, const char *variable, const char *ledger) {
    note->path[0] = note->text[0] = '\0';
    if (variable == NULL || ledger == NULL)
        return;
    const int length = snprintf(note->path, sizeof note->path, "%s.%ld", ledger, (long)getpid());
    if (length < 0 || (size_t)length >= sizeof note->path || setenv(variable, note->path, 1) != 0)
        note->path[0] = '\0';
    else
        unlink(note->path); /* of a launcher that was killed and had this number */
}

static void append(struct note *note, const char *line) {
    const size_t used = strlen(note->text);
    snprintf(note->text + used, sizeof note->text - used, "%s%s", used ? " " : "", line);
}

void take_note(struct note *note) {
    FILE *file = note->path[0] ? read_plain(note->path) : NULL;
    char line[NOTE_TEXT];
    bool starts = true; /* whether `line` is the beginning of one */
    bool comment = false;
    note->text[0] = '\0'; /* of an earlier attempt */
    if (file == NULL)
        return;
    while (fgets(line, sizeof line, file)) {
        const size_t end = strcspn(line, "\n");
        comment = starts ? line[0] == '#' : comment;
        starts = line[end] == '\n';
        line[end] = '\0';
        if (!comment && line[0])
            append(note, line);
    }
    fclose(file);
    unlink(note->path);
}
