/* What the system says is the same each time: random numbers, from which the order of a HashMap
   follows, and the time, on which tokio's paused clocks are based. */
#include <string.h>
#include <sys/types.h>
#include <time.h>

ssize_t getrandom(void *buffer, size_t length, unsigned int flags) {
    (void)flags;
    memset(buffer, 0x5a, length);
    return (ssize_t)length;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    (void)clock;
    time->tv_sec = 1000000;
    time->tv_nsec = 0;
    return 0;
}
