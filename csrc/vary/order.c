/* The order in which readdir(3) lists a folder's files: by a hash of their names and CPUWHEELS_VARY_ORDER, as
 * another file system might have it. Without the variable it is the file system's own.
 *
 * A folder is read as a whole when its first file is asked for. glob(3), scandir(3) and ftw(3) ask the C
 * library inside, where nothing can be put in between; glob sorts what it finds. */
#define _GNU_SOURCE

#include "vary.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct dirent) == sizeof(struct dirent64), "a 64-bit machine");

struct file {
    uint64_t hash;
    struct dirent64 *entry;
};

struct folder {
    DIR *stream;
    struct file *files;
    long count, place;
    int fault;
    struct folder *next;
};

static struct folder *folders;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static long long seed(void) {
    static long long known = -1;
    if (known < 0)
        known = number_from("CPUWHEELS_VARY_ORDER");
    return known;
}

/* FNV-1a; its lowest bits alone change with the last characters. */
static uint64_t hash_of(const char *name) {
    uint64_t hash = 14695981039346656037U ^ ((uint64_t)seed() * 1099511628211U);
    for (; *name; ++name)
        hash = (hash ^ (unsigned char)*name) * 1099511628211U;
    return hash ^ hash >> 29;
}

static int by_hash(const void *one, const void *two) {
    const struct file *left = one, *right = two;
    if (left->hash != right->hash)
        return left->hash < right->hash ? -1 : 1;
    return strcmp(left->entry->d_name, right->entry->d_name);
}

static struct folder *find(DIR *stream) {
    struct folder *found = folders;
    while (found && found->stream != stream)
        found = found->next;
    return found;
}

static void forget(DIR *stream) {
    pthread_mutex_lock(&lock);
    for (struct folder **place = &folders; *place; place = &(*place)->next) {
        struct folder *found = *place;
        if (found->stream != stream)
            continue;
        *place = found->next;
        for (long number = 0; number < found->count; ++number)
            free(found->files[number].entry);
        free(found->files);
        free(found);
        break;
    }
    pthread_mutex_unlock(&lock);
}

/* Returns a folder with all of its files; a null pointer if there is no memory. */
static struct folder *read_whole(DIR *stream) {
    struct dirent64 *(*const original)(DIR *) = dlsym(RTLD_NEXT, "readdir64");
    struct folder *folder = calloc(1, sizeof *folder);
    if (!folder)
        return NULL;
    folder->stream = stream;
    for (;;) {
        errno = 0;
        struct dirent64 *entry = original(stream);
        if (!entry) {
            folder->fault = errno;
            break;
        }
        struct file *files = realloc(folder->files, (size_t)(folder->count + 1) * sizeof *files);
        struct dirent64 *copy = malloc(sizeof *copy);
        if (files)
            folder->files = files;
        if (!files || !copy) {
            free(copy);
            folder->fault = ENOMEM;
            break;
        }
        memcpy(copy, entry, entry->d_reclen < sizeof *copy ? entry->d_reclen : sizeof *copy);
        folder->files[folder->count++] = (struct file){hash_of(copy->d_name), copy};
    }
    if (folder->count)
        qsort(folder->files, (size_t)folder->count, sizeof *folder->files, by_hash);
    folder->next = folders;
    return folders = folder;
}

struct dirent64 *readdir64(DIR *stream) {
    if (!seed()) {
        struct dirent64 *(*const original)(DIR *) = dlsym(RTLD_NEXT, "readdir64");
        return original(stream);
    }
    int before = errno;
    struct dirent64 *entry = NULL;
    pthread_mutex_lock(&lock);
    struct folder *folder = find(stream);
    if (!folder)
        folder = read_whole(stream);
    if (folder && folder->place < folder->count)
        entry = folder->files[folder->place++].entry;
    int fault = folder ? folder->fault : ENOMEM;
    pthread_mutex_unlock(&lock);
    errno = !entry && fault ? fault : before;
    return entry;
}

struct dirent *readdir(DIR *stream) {
    return (struct dirent *)(void *)readdir64(stream);
}

void rewinddir(DIR *stream) {
    void (*const original)(DIR *) = dlsym(RTLD_NEXT, "rewinddir");
    forget(stream);
    original(stream);
}

long telldir(DIR *stream) {
    long (*const original)(DIR *) = dlsym(RTLD_NEXT, "telldir");
    if (!seed())
        return original(stream);
    pthread_mutex_lock(&lock);
    struct folder *folder = find(stream);
    long place = folder ? folder->place : 0;
    pthread_mutex_unlock(&lock);
    return place;
}

void seekdir(DIR *stream, long place) {
    void (*const original)(DIR *, long) = dlsym(RTLD_NEXT, "seekdir");
    if (!seed()) {
        original(stream, place);
        return;
    }
    pthread_mutex_lock(&lock);
    struct folder *folder = find(stream);
    if (folder)
        folder->place = place;
    pthread_mutex_unlock(&lock);
}

int closedir(DIR *stream) {
    int (*const original)(DIR *) = dlsym(RTLD_NEXT, "closedir");
    forget(stream);
    return original(stream);
}
