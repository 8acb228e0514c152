/*
 * Clocks that a test moves: preloaded into a redis-server, or a worker.
 *
 * The file named by SKEWED_CLOCK holds three integers of 64 bits: by how many
 * microseconds the wall clock is off; unless it is 0, the time in microseconds at
 * which that stands still; and for how many microseconds the monotonic clock stood
 * still, as while the system is suspended. A server's is left alone, so that its
 * timers go on.
 *
 * Valkey adds what the processor's own clock counts to the time of its last look, if
 * /proc/cpuinfo says that the clock is constant. So it does not find that file.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t *skew(void) {
    static volatile const int64_t *clock;
    if (!clock) {
        int file = open(getenv("SKEWED_CLOCK"), O_RDONLY | O_CLOEXEC);
        void *page = mmap(NULL, 24, PROT_READ, MAP_SHARED, file, 0);
        if (page == MAP_FAILED) abort();
        clock = page;
    }
    return clock;
}

static int64_t now_us(void) {
    volatile const int64_t *clock = skew();
    if (clock[1]) return clock[1] + clock[0];
    struct timespec real;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &real);
    return real.tv_sec * 1000000LL + real.tv_nsec / 1000 + clock[0];
}

int clock_gettime(clockid_t id, struct timespec *time) {
    if (id == CLOCK_MONOTONIC) {
        int64_t ns = skew()[2] * 1000;
        syscall(SYS_clock_gettime, id, time);
        ns = time->tv_sec * 1000000000LL + time->tv_nsec - ns;
        *time = (struct timespec){ns / 1000000000, ns % 1000000000};
        return 0;
    }
    if (id != CLOCK_REALTIME) return syscall(SYS_clock_gettime, id, time);
    int64_t us = now_us();
    *time = (struct timespec){us / 1000000, us % 1000000 * 1000};
    return 0;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    (void)zone;
    int64_t us = now_us();
    *time = (struct timeval){us / 1000000, us % 1000000};
    return 0;
}

time_t time(time_t *seconds) {
    time_t now = now_us() / 1000000;
    if (seconds) *seconds = now;
    return now;
}

FILE *fopen(const char *restrict path, const char *restrict mode) {
    static FILE *(*real)(const char *, const char *);
    if (!strcmp(path, "/proc/cpuinfo")) {
        errno = ENOENT;
        return NULL;
    }
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "fopen");
    return real(path, mode);
}

#ifndef fopen64
/* The same in programs that are built for large files. */
FILE *fopen64(const char *restrict path, const char *restrict mode) {
    return fopen(path, mode);
}
#endif
