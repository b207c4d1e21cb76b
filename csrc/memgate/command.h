/* What a compiler or linker command line says about the file it makes. */
#ifndef MEMGATE_COMMAND_H
#define MEMGATE_COMMAND_H

struct command {
    char **argv;        /* ends with NULL */
    const char *output; /* argument of -o, or "" */
    const char *source; /* the input that -c compiles, or "" for a link */
};

struct command read_command(char **argv);

#endif
