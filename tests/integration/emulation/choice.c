/* Prints the library that the chooser of a table.h would load, or why it would load none. */
#include "chooser.h"
#include "table.h"

#include <stdio.h>
#include <stdlib.h>

int main(void) {
    const struct table table = {MODULE_NAME, TARGET, LIBRARIES, sizeof LIBRARIES / sizeof *LIBRARIES};
    struct report cpu = {0};
    struct text why = {0};
    probe(&cpu);
    const struct library *library = choose(&table, &cpu, getenv(CHOICE), &why);
    puts(library ? library->name : why.bytes);
    return 0;
}
