#define _GNU_SOURCE /* kill */
#include "tree.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

enum { MOST = 256 }; /* processes of one job; a compiler has two or three, a link with LTO some more */

#if defined(__linux__)

/* proc_pid_children(5); needs CONFIG_PROC_CHILDREN, which distributions set. */
static size_t list_children(pid_t parent, pid_t *found, size_t room) {
    char path[64];
    int child;
    size_t count = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)parent, (int)parent);
    FILE *stream = fopen(path, "re");
    if (stream == NULL)
        return 0;
    while (count < room && fscanf(stream, "%d", &child) == 1)
        found[count++] = child;
    fclose(stream);
    return count;
}

/* proc_pid_statm(5): size, resident and shared pages. */
static struct tree_memory measure(pid_t process) {
    char path[64];
    long long resident = 0, shared = 0;
    const long long page = sysconf(_SC_PAGESIZE);
    snprintf(path, sizeof path, "/proc/%d/statm", (int)process);
    FILE *stream = fopen(path, "re");
    if (stream == NULL)
        return (struct tree_memory){0};
    if (fscanf(stream, "%*d %lld %lld", &resident, &shared) != 2)
        resident = shared = 0;
    fclose(stream);
    return (struct tree_memory){.own_bytes = (resident - shared) * page, .shared_bytes = shared * page};
}

#elif defined(__APPLE__)

#include <libproc.h>

static size_t list_children(pid_t parent, pid_t *found, size_t room) {
    const int count = proc_listchildpids(parent, found, (int)(room * sizeof *found));
    return count > 0 ? (size_t)count : 0;
}

/* The physical footprint is what the system holds a process to; it has no pages of files in it. */
static struct tree_memory measure(pid_t process) {
    struct rusage_info_v2 usage;
    if (proc_pid_rusage(process, RUSAGE_INFO_V2, (rusage_info_t *)&usage) != 0)
        return (struct tree_memory){0};
    return (struct tree_memory){.own_bytes = (int64_t)usage.ri_phys_footprint};
}

#else

static size_t list_children(pid_t parent, pid_t *found, size_t room) {
    (void)parent, (void)found, (void)room;
    return 0;
}

static struct tree_memory measure(pid_t process) {
    (void)process;
    return (struct tree_memory){0};
}

#endif

static size_t list_tree(pid_t root, pid_t *found) {
    size_t count = 0;
    found[count++] = root;
    for (size_t index = 0; index < count; index++)
        count += list_children(found[index], found + count, MOST - count);
    return count;
}

struct tree_memory measure_tree(pid_t root) {
    pid_t members[MOST];
    struct tree_memory total = {0};
    const size_t count = list_tree(root, members);
    for (size_t index = 0; index < count; index++) {
        const struct tree_memory member = measure(members[index]);
        total.own_bytes += member.own_bytes;
        if (member.shared_bytes > total.shared_bytes)
            total.shared_bytes = member.shared_bytes;
    }
    return total;
}

void kill_tree(pid_t root) {
    pid_t members[MOST];
    const size_t count = list_tree(root, members);
    for (size_t index = 0; index < count; index++)
        kill(members[index], SIGKILL);
}
