/* Loading a library from where the chooser itself lies. */
#define _GNU_SOURCE /* dladdr(3) */
#include "chooser.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Any object of this file's own will do to find the file that it is in. */
static const char HERE = 0;

bool load(const struct library *library, struct text *why) {
    Dl_info self;
    char path[PATH_MAX];
    if (!dladdr(&HERE, &self) || !self.dli_fname) {
        append(why, "the folder of %s cannot be found", library->name);
        return false;
    }
    const char *slash = strrchr(self.dli_fname, '/');
    const int folder = slash ? (int)(slash - self.dli_fname) : 1;
    const int length =
        snprintf(path, sizeof path, "%.*s/%s.abi3.so", folder, slash ? self.dli_fname : ".", library->name);
    if (length < 0 || (size_t)length >= sizeof path) {
        append(why, "the path of %s is too long", library->name);
        return false;
    }
    /* As Python and torch.ops.load_library load it. It is never closed: torch keeps its operators. */
    if (dlopen(path, RTLD_NOW | RTLD_LOCAL))
        return true;
    const char *fault = dlerror();
    append(why, "%s cannot be loaded: %s", library->name, fault ? fault : path);
    return false;
}
