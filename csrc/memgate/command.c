#include "command.h"

#include <stdbool.h>
#include <string.h>

static bool is_source(const char *argument) {
    static const char *const SUFFIXES[] = {".c", ".cc", ".cpp", ".cxx", ".C", ".s", ".S", ".m", ".mm"};
    const char *suffix = strrchr(argument, '.');
    if (argument[0] == '-' || suffix == NULL)
        return false;
    for (size_t row = 0; row < sizeof SUFFIXES / sizeof *SUFFIXES; row++)
        if (strcmp(suffix, SUFFIXES[row]) == 0)
            return true;
    return false;
}

/* CMake writes "-c FILE"; by hand the input may stand anywhere, so then a source file is looked for. */
static const char *find_source(char **argv) {
    const char *candidate = "";
    bool compiles = false;
    for (char **word = argv + 1; *word; word++) {
        if (strcmp(*word, "-c") == 0) {
            compiles = true;
            if (word[1] && word[1][0] != '-')
                return word[1];
        } else if (is_source(*word)) {
            candidate = *word;
        }
    }
    return compiles ? candidate : "";
}

struct command read_command(char **argv) {
    struct command command = {.argv = argv, .output = "", .source = find_source(argv)};
    for (char **word = argv + 1; *word; word++) {
        if (strcmp(*word, "-o") == 0 && word[1])
            command.output = *++word;
        else if (strncmp(*word, "-o", 2) == 0 && (*word)[2])
            command.output = *word + 2;
    }
    return command;
}
