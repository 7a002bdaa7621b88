/*
 * A disk that fails when told to, for processes of tests: loaded with LD_PRELOAD, it needs neither root nor a file system
 * of its own. While the file named by FAILING_DISK_ORDER exists, growing a file below FAILING_DISK_UNDER fails with
 * the error number written in the order. Every other failing write first takes half of its bytes, as a full disk does.
 * While the file named by FAILING_DISK_READS exists, nothing below lies in the page cache, and reading as much as is read
 * ahead of sending fails with the number written there.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static int failing_writes;

static int ordered(const char *name) {
    const char *path = getenv(name);
    if (!path)
        return 0;
    int order = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (order < 0)
        return 0;
    char text[16] = {0};
    long size = syscall(SYS_read, order, text, sizeof text - 1);
    syscall(SYS_close, order);
    return size > 0 ? atoi(text) : 0;
}

static int below(const char *path) {
    const char *under = getenv("FAILING_DISK_UNDER");
    return under && !strncmp(path, under, strlen(under));
}

/* The error that is ordered for this file by the variable of this name, or 0. */
static int failure_by(const char *name, int descriptor) {
    char link[64], path[PATH_MAX];
    int kept = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t size = readlink(link, path, sizeof path - 1);
    errno = kept;
    if (size <= 0)
        return 0;
    path[size] = 0;
    return below(path) ? ordered(name) : 0;
}

static int failure_of(int descriptor) { return failure_by("FAILING_DISK_ORDER", descriptor); }

ssize_t write(int descriptor, const void *data, size_t size) {
    int failure = failure_of(descriptor);
    if (failure) {
        if (size > 1 && failing_writes++ % 2 == 0)
            return syscall(SYS_write, descriptor, data, size / 2);
        errno = failure;
        return -1;
    }
    return syscall(SYS_write, descriptor, data, size);
}

ssize_t writev(int descriptor, const struct iovec *parts, int count) {
    int failure = failure_of(descriptor);
    if (failure) {
        errno = failure;
        return -1;
    }
    return syscall(SYS_writev, descriptor, parts, count);
}

static ssize_t write_at(int descriptor, const void *data, size_t size, off_t position) {
    int failure = failure_of(descriptor);
    if (failure) {
        errno = failure;
        return -1;
    }
    return syscall(SYS_pwrite64, descriptor, data, size, position);
}

ssize_t pwrite(int descriptor, const void *data, size_t size, off_t position) {
    return write_at(descriptor, data, size, position);
}

ssize_t pwrite64(int descriptor, const void *data, size_t size, off_t position) {
    return write_at(descriptor, data, size, position);
}

/* fsync reports a broken disk (EIO), but not a full one: what was written has its room. */
static int sync_with(long number, int descriptor) {
    int failure = failure_of(descriptor);
    if (failure && failure != ENOSPC) {
        errno = failure;
        return -1;
    }
    return (int)syscall(number, descriptor);
}

int fsync(int descriptor) { return sync_with(SYS_fsync, descriptor); }

int fdatasync(int descriptor) { return sync_with(SYS_fdatasync, descriptor); }

#define MUCH 16384

static ssize_t read_at(int descriptor, void *data, size_t size, off_t position) {
    int failure = size > MUCH ? failure_by("FAILING_DISK_READS", descriptor) : 0;
    if (failure) {
        errno = failure;
        return -1;
    }
    return syscall(SYS_pread64, descriptor, data, size, position);
}

ssize_t pread(int descriptor, void *data, size_t size, off_t position) {
    return read_at(descriptor, data, size, position);
}

ssize_t pread64(int descriptor, void *data, size_t size, off_t position) {
    return read_at(descriptor, data, size, position);
}

static ssize_t read_parts(int descriptor, const struct iovec *parts, int count, off_t position, int flags) {
    if (flags & RWF_NOWAIT && failure_by("FAILING_DISK_READS", descriptor)) {
        errno = EAGAIN;
        return -1;
    }
    return syscall(SYS_preadv2, descriptor, parts, count, position, (long)0, flags);
}

ssize_t preadv2(int descriptor, const struct iovec *parts, int count, off_t position, int flags) {
    return read_parts(descriptor, parts, count, position, flags);
}

ssize_t preadv64v2(int descriptor, const struct iovec *parts, int count, off_t position, int flags) {
    return read_parts(descriptor, parts, count, position, flags);
}

static ssize_t send_from(int to, int from, off_t *position, size_t size) {
    int failure = failure_by("FAILING_DISK_READS", from);
    if (failure) {
        errno = failure;
        return -1;
    }
    return syscall(SYS_sendfile, to, from, position, size);
}

ssize_t sendfile(int to, int from, off_t *position, size_t size) { return send_from(to, from, position, size); }

ssize_t sendfile64(int to, int from, off_t *position, size_t size) { return send_from(to, from, position, size); }
