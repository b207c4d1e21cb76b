/* Executes CPUID in one of the ways that programs have, and prints the highest basic leaf that it is told;
 * or, for `LEAF SUBLEAF`, all that it is told. */
#define _GNU_SOURCE
#include <cpuid.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int *volatile nowhere = (int *)16;
static sigjmp_buf before;
static volatile sig_atomic_t faults;

static unsigned highest_leaf(void) {
    unsigned eax, ebx, ecx, edx;
    __cpuid(0, eax, ebx, ecx, edx);
    return eax;
}

static void *in_thread(void *found) {
    *(unsigned *)found = highest_leaf();
    return NULL;
}

static int in_child(pid_t child) {
    int status;
    if (child == 0) {
        printf("%x\n", highest_leaf());
        fflush(stdout);
        _exit(0);
    }
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static void handle(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    faults += info->si_addr == (const volatile void *)nowhere;
    siglongjmp(before, 1);
}

/* A program with its own handler sees its own faults alone. */
static void with_handler(void) {
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    if (sigsetjmp(before, 1) == 0 && highest_leaf() != 0)
        *nowhere = 0;
    printf("%x %d\n", highest_leaf(), (int)faults);
}

int main(int count, char **arguments) {
    const char *way = count > 1 ? arguments[1] : "";
    if (count == 3) {
        unsigned eax, ebx, ecx, edx;
        __cpuid_count((unsigned)strtoul(way, NULL, 0), (unsigned)strtoul(arguments[2], NULL, 0), eax, ebx,
                      ecx, edx);
        printf("%x %x %x %x\n", eax, ebx, ecx, edx);
    } else if (strcmp(way, "main") == 0) {
        printf("%x\n", highest_leaf());
    } else if (strcmp(way, "thread") == 0) {
        pthread_t thread;
        unsigned found = 0;
        pthread_create(&thread, NULL, in_thread, &found);
        pthread_join(thread, NULL);
        printf("%x\n", found);
    } else if (strcmp(way, "fork") == 0) {
        return in_child(fork());
    } else if (strcmp(way, "vfork") == 0) {
        const pid_t child = vfork();
        if (child == 0) {
            execl(arguments[0], arguments[0], "main", (char *)NULL);
            _exit(1);
        }
        waitpid(child, NULL, 0);
    } else if (strcmp(way, "exec") == 0) {
        execl(arguments[0], arguments[0], "main", (char *)NULL);
    } else if (strcmp(way, "handler") == 0) {
        with_handler();
    } else if (strcmp(way, "crash") == 0) {
        *nowhere = 0;
    } else {
        return 2;
    }
    return 0;
}
