/*
 * Clocks that a test moves: preloaded into a redis-server, or a worker.
 *
 * The file named by SKEWED_CLOCK holds three integers of 64 bits: by how many
 * microseconds the wall clock is off; unless it is 0, the time in microseconds at
 * which that stands still; and for how many microseconds the monotonic clock stood
 * still, as while the system is suspended. A server's is left alone, so that its
 * timers go on.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
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
