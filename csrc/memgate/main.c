/* memgate: runs one compiler or linker job and writes down what it cost.
 *
 *     memgate --ledger FILE -- COMMAND [ARGUMENT...]
 *
 * Set as CMAKE_<LANG>_COMPILER_LAUNCHER and CMAKE_<LANG>_LINKER_LAUNCHER. It exits as the job did, so a build
 * that uses it fails and succeeds exactly where one without it would. */
#include "command.h"
#include "job.h"
#include "ledger.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct options {
    const char *ledger; /* NULL: the cost is not written down */
    char **argv;        /* the job */
};

static bool read_options(char **argv, struct options *options) {
    char **word = argv + 1;
    for (; *word && strcmp(*word, "--") != 0; word++) {
        if (strcmp(*word, "--ledger") != 0 || word[1] == NULL)
            return false;
        options->ledger = *++word;
    }
    if (*word == NULL || word[1] == NULL)
        return false;
    options->argv = word + 1;
    return true;
}

int main(int argc, char **argv) {
    struct options options = {0};
    struct job job = {0};
    if (argc < 1 || !read_options(argv, &options)) {
        fprintf(stderr, "usage: memgate --ledger FILE -- COMMAND [ARGUMENT...]\n");
        return OWN_FAILURE;
    }
    const struct command command = read_command(options.argv);
    if (!run_job(command.argv, &job)) {
        fprintf(stderr, "memgate: cannot start %s: %s\n", command.argv[0], strerror(errno));
        return OWN_FAILURE;
    }
    if (options.ledger && !append_to_ledger(options.ledger, &command, &job))
        fprintf(stderr, "memgate: cannot write %s: %s\n", options.ledger, strerror(errno));
    return job.status;
}
