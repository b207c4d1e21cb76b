/* Runs a command, and all that it starts, with a CPUID that is changed as asked: a processor that is not at
 * hand.
 *
 *     cpuid_mask [--max-leaf LEAF] [--zero-palette] [--announce-amx] -- COMMAND...
 *     cpuid_mask --check
 *
 * --max-leaf      makes LEAF the highest basic leaf; those above it get its data, as Intel's processors do it
 *                 (Intel SDM volume 2A, "CPUID")
 * --zero-palette  makes palette 1 of AMX (leaf 0x1d, subleaf 1) one without tiles
 * --announce-amx  sets the bits of AMX-BF16, AMX-TILE and AMX-INT8 in leaf 7
 * --check         tells whether this works here, with status 0, or 1 and why not
 *
 * The status is the command's, 128 and the signal if one ended it, 127 if it cannot be started; 126 is a
 * fault of this program. Linux on x86-64, and 64-bit programs.
 *
 * The processor can be told to fault when a program executes CPUID (arch_prctl(2), ARCH_SET_CPUID). Linux
 * makes a SIGSEGV of the fault; this program traces the others, sees the signal before them and answers
 * instead. It is told of nothing but signals and new processes, so that all other code runs at full speed.
 *
 * Known limits: the kernel forces the signal through. If a program had SIGSEGV blocked or ignored when it
 * executed CPUID, it finds the default handler there afterwards. XGETBV does not fault: register state is the
 * machine's. */
#if !defined(__x86_64__) || !defined(__linux__)
#error "CPUID faulting is Linux's on x86-64"
#endif
#define _GNU_SOURCE

#include <cpuid.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARCH_SET_CPUID_ = 0x1012 }; /* <asm/prctl.h> */
enum { FAULT = 126, NOT_STARTED = 127 };

static struct {
    uint32_t max_leaf; /* UINT32_MAX if it is not changed */
    bool zero_palette, announce_amx;
} wanted = {UINT32_MAX, false, false};

static struct {
    pid_t process;
    int result;
} command = {0, FAULT};

static _Noreturn void die(const char *format, ...) {
    va_list values;
    va_start(values, format);
    fputs("cpuid_mask: ", stderr);
    vfprintf(stderr, format, values);
    fputs("\n", stderr);
    va_end(values);
    exit(FAULT); /* PTRACE_O_EXITKILL ends what is traced */
}

/* What the program is told: EAX, EBX, ECX, EDX. */
static void answer(uint32_t leaf, uint32_t subleaf, uint32_t words[4]) {
    const uint32_t hypervisors = 0x40000000; /* the first leaf that is no basic one */
    if (leaf > wanted.max_leaf && leaf < hypervisors)
        leaf = wanted.max_leaf;
    __cpuid_count(leaf, subleaf, words[0], words[1], words[2], words[3]);
    if (leaf == 0 && words[0] > wanted.max_leaf)
        words[0] = wanted.max_leaf;
    if (wanted.announce_amx && leaf == 7 && subleaf == 0)
        words[3] |= 1u << 22 | 1u << 24 | 1u << 25;
    if (wanted.zero_palette && leaf == 0x1d && subleaf == 1)
        memset(words, 0, 4 * sizeof *words);
}

/* Answers if a stop for SIGSEGV is CPUID's doing; false if it is the program's own affair. */
static bool answered(pid_t thread) {
    struct user_regs_struct regs;
    siginfo_t info;
    unsigned char code[2];
    if (ptrace(PTRACE_GETSIGINFO, thread, NULL, &info) != 0 || info.si_code != SI_KERNEL ||
        ptrace(PTRACE_GETREGS, thread, NULL, &regs) != 0)
        return false;
    const struct iovec here = {code, sizeof code}, there = {(void *)regs.rip, sizeof code};
    if (process_vm_readv(thread, &here, 1, &there, 1, 0) != (ssize_t)sizeof code || code[0] != 0x0f ||
        code[1] != 0xa2)
        return false;
    uint32_t words[4];
    answer((uint32_t)regs.rax, (uint32_t)regs.rcx, words);
    regs.rax = words[0]; /* CPUID clears the upper halves */
    regs.rbx = words[1];
    regs.rcx = words[2];
    regs.rdx = words[3];
    regs.rip += sizeof code;
    return ptrace(PTRACE_SETREGS, thread, NULL, &regs) == 0;
}

static int as_shells_say(int status) {
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Notes how a process ended, if it is the command itself. */
static void ended(pid_t process, int status) {
    if (process == command.process)
        command.result = as_shells_say(status);
}

/* Lets a thread run until a trap at some address; other signals wait for it. False if it has ended. */
static bool run_to(pid_t thread, unsigned long long address) {
    int kept[64], count = 0, status;
    bool there = false;
    while (!there) {
        ptrace(PTRACE_CONT, thread, NULL, NULL);
        if (waitpid(thread, &status, __WALL) != thread)
            return false;
        if (!WIFSTOPPED(status)) {
            ended(thread, status);
            return false;
        }
        struct user_regs_struct regs;
        const bool event = status >> 16 != 0;
        there = !event && WSTOPSIG(status) == SIGTRAP && ptrace(PTRACE_GETREGS, thread, NULL, &regs) == 0 &&
                regs.rip == address;
        if (!there && !event && count < (int)(sizeof kept / sizeof *kept))
            kept[count++] = WSTOPSIG(status);
    }
    while (count)
        syscall(SYS_tkill, thread, kept[--count]);
    return true;
}

/* A request that fails only if the thread has been killed. */
static bool request(enum __ptrace_request what, pid_t thread, void *address, void *data) {
    if (ptrace(what, thread, address, data) == 0)
        return true;
    if (errno != ESRCH)
        die("process %d cannot be traced: %s", thread, strerror(errno));
    return false;
}

/* Has a program that begins execute arch_prctl(ARCH_SET_CPUID, 0): the setting ends with every execve, while
 * threads and children inherit it. */
static void switch_on(pid_t thread) {
    /* mov eax, SYS_arch_prctl; syscall; int3. An EAX written now would give way to execve's result. */
    static const unsigned char CALL[8] = {0xb8, SYS_arch_prctl, 0, 0, 0, 0x0f, 0x05, 0xcc};
    struct user_regs_struct regs, changed;
    uint64_t call, saved;
    memcpy(&call, CALL, sizeof call);
    if (!request(PTRACE_GETREGS, thread, NULL, &regs))
        return;
    if (regs.cs != 0x33)
        die("process %d is not a 64-bit program", thread);
    void *const entry = (void *)regs.rip;
    errno = 0;
    saved = (uint64_t)ptrace(PTRACE_PEEKTEXT, thread, entry, NULL);
    changed = regs;
    changed.rdi = ARCH_SET_CPUID_;
    changed.rsi = 0;
    if (errno != 0 && errno != ESRCH)
        die("process %d cannot be read: %s", thread, strerror(errno));
    if (errno != 0 || !request(PTRACE_POKETEXT, thread, entry, (void *)call) ||
        !request(PTRACE_SETREGS, thread, NULL, &changed) || !run_to(thread, regs.rip + sizeof CALL) ||
        !request(PTRACE_GETREGS, thread, NULL, &changed))
        return;
    if (changed.rax != 0)
        die("CPUID cannot be made to fault: %s", strerror(-(int)changed.rax));
    regs.rax = 0;                           /* what execve has given by now */
    regs.orig_rax = (unsigned long long)-1; /* and no system call is under way that could be started again */
    if (request(PTRACE_POKETEXT, thread, entry, (void *)saved))
        request(PTRACE_SETREGS, thread, NULL, &regs);
}

/* Lets a stopped thread go on; it may be gone meanwhile. */
static void go_on(pid_t thread, int status) {
    const int signal = WSTOPSIG(status), event = status >> 16;
    if (event == PTRACE_EVENT_STOP && signal != SIGTRAP) {
        ptrace(PTRACE_LISTEN, thread, NULL, NULL); /* stopped by job control: it stays so until SIGCONT */
        return;
    }
    if (event == PTRACE_EVENT_EXEC)
        switch_on(thread);
    const bool pass = event == 0 && !(signal == SIGSEGV && answered(thread));
    ptrace(PTRACE_CONT, thread, NULL, (void *)(long)(pass ? signal : 0));
}

/* Starts a process that waits until it is traced and then becomes the command. */
static pid_t start(char **arguments) {
    int gate[2];
    if (pipe(gate) != 0)
        die("pipe: %s", strerror(errno));
    const pid_t child = fork();
    if (child < 0)
        die("fork: %s", strerror(errno));
    if (child == 0) {
        char byte;
        close(gate[1]);
        const bool traced = read(gate[0], &byte, 1) == 1;
        close(gate[0]);
        if (!traced)
            _exit(FAULT);
        execvp(arguments[0], arguments);
        fprintf(stderr, "cpuid_mask: %s: %s\n", arguments[0], strerror(errno));
        _exit(NOT_STARTED);
    }
    const long options = PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC |
                         PTRACE_O_EXITKILL;
    if (ptrace(PTRACE_SEIZE, child, NULL, (void *)options) != 0)
        die("processes cannot be traced here: %s", strerror(errno));
    if (write(gate[1], "", 1) != 1)
        die("write: %s", strerror(errno));
    close(gate[0]);
    close(gate[1]);
    return child;
}

static int trace(char **arguments) {
    int status;
    pid_t thread;
    command.process = start(arguments);
    signal(SIGINT, SIG_IGN); /* the terminal sends them to the command as well, which decides */
    signal(SIGQUIT, SIG_IGN);
    /* Until the last descendant has ended: left alone, it would die at its next CPUID. */
    while ((thread = waitpid(-1, &status, __WALL)) > 0 || errno == EINTR) {
        if (thread > 0 && WIFSTOPPED(status))
            go_on(thread, status);
        else if (thread > 0)
            ended(thread, status);
    }
    return command.result;
}

static int check(void) {
    const pid_t child = fork();
    int status;
    if (child == 0)
        _exit(syscall(SYS_arch_prctl, ARCH_SET_CPUID_, 0) == 0 ? 0 : errno);
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        die("fork: %s", strerror(errno));
    if (WEXITSTATUS(status) == ENODEV) {
        puts("this processor, or the virtual machine, cannot make CPUID fault");
        return 1;
    }
    if (WEXITSTATUS(status) != 0) {
        printf("the kernel cannot make CPUID fault: %s\n", strerror(WEXITSTATUS(status)));
        return 1;
    }
    const pid_t traced = fork();
    if (traced == 0) {
        pause();
        _exit(0);
    }
    const bool can = ptrace(PTRACE_SEIZE, traced, NULL, NULL) == 0;
    if (!can)
        printf("processes cannot be traced here: %s\n", strerror(errno));
    kill(traced, SIGKILL);
    waitpid(traced, &status, __WALL);
    return can ? 0 : 1;
}

int main(int count, char **arguments) {
    int next = 1;
    if (count == 2 && strcmp(arguments[1], "--check") == 0)
        return check();
    for (; next < count && strcmp(arguments[next], "--") != 0; next++) {
        if (strcmp(arguments[next], "--max-leaf") == 0 && next + 1 < count)
            wanted.max_leaf = (uint32_t)strtoul(arguments[++next], NULL, 0);
        else if (strcmp(arguments[next], "--zero-palette") == 0)
            wanted.zero_palette = true;
        else if (strcmp(arguments[next], "--announce-amx") == 0)
            wanted.announce_amx = true;
        else
            die("unknown option: %s", arguments[next]);
    }
    if (next + 1 >= count)
        die("no command after --");
    return trace(arguments + next + 1);
}
