/* What a job has to say about itself, such as whether a compiler cache had its result: it writes lines into a
 * file that an environment variable names. */
#ifndef MEMGATE_NOTE_H
#define MEMGATE_NOTE_H

enum { NOTE_PATH = 4096, NOTE_TEXT = 512 };

struct note {
    char path[NOTE_PATH]; /* empty: nobody asks */
    char text[NOTE_TEXT]; /* the lines, but for those that begin with '#', with blanks between them */
};

/* Sets the variable to a file beside `ledger` that no other job has. `variable` or `ledger` may be NULL: then
 * the note stays empty. */
void ask_for_note(struct note *note, const char *variable, const char *ledger);

/* Reads what the job wrote and removes the file. */
void take_note(struct note *note);

#endif
