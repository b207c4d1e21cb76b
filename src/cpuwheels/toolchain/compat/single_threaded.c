/* glibc 2.32: libstdc++ skips atomic operations while this is true. False is always right. */
char __libc_single_threaded = 0;
