/*
 * A fork that safe code can ask for: preloaded into a worker, whose reading of the
 * link `/leasehold-test/fork` forks it. What the link says is what `fork` returned.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

ssize_t readlink(const char *restrict path, char *restrict to, size_t size) {
    if (!strcmp(path, "/leasehold-test/fork")) return snprintf(to, size, "%d", fork());
    return syscall(SYS_readlinkat, AT_FDCWD, path, to, size);
}
