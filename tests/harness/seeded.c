/* Random numbers of the system that are always the same: the order of a HashMap follows from them. */
#include <string.h>
#include <sys/types.h>

ssize_t getrandom(void *buffer, size_t length, unsigned int flags) {
    (void)flags;
    memset(buffer, 0x5a, length);
    return (ssize_t)length;
}
