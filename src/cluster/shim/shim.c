/* fencepost's preload shim: a process that believes a page of memory about the time of day, and that writes down what it
 * has synced.
 *
 * Owns: CLOCK_REALTIME as the process sees it (clock_gettime, gettimeofday, time), the size that each file had at the
 * last fsync or fdatasync of it, and the cut of un-synced tails at a start. Must not know who reads or why.
 * The page (FENCEPOST_PAGE, 4096 bytes, shared, little-endian) is written in place by the harness, which is
 * src/cluster/shim.rs; the layout is there too.
 *
 * No malloc, no dlsym, no lock, no libc but getenv and syscall: allocators call clock_gettime before they are ready, and
 * a shim that calls back into them hangs at the start (as libfaketime does under jemalloc). Monotonic clocks are true.
 *
 *   cc -O2 -shared -fPIC -o shim.so shim.c
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define FILES 16
#define PATH 176

struct synced {
    uint64_t inode;
    uint64_t size;
    char path[PATH];
};

struct page {
    uint64_t sequence; /* odd while the four below are written */
    int64_t offset_ns;
    int64_t base_ns;
    int64_t drift_ppb;
    uint64_t cut; /* 0 nothing, 1 asked for, 2 done */
    uint64_t cut_from, cut_to;
    uint64_t spare;
    struct synced files[FILES];
};

static volatile struct page *page;

static int64_t real_ns(clockid_t clock) {
    struct timespec t;
    syscall(SYS_clock_gettime, clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The time of day as the page has it. */
static int64_t day_ns(clockid_t clock) {
    int64_t now = real_ns(clock);
    volatile struct page *p = page;
    if (!p) return now;
    for (int tries = 0; tries < 1000; tries++) {
        uint64_t before = __atomic_load_n(&p->sequence, __ATOMIC_ACQUIRE);
        int64_t offset = p->offset_ns, base = p->base_ns, drift = p->drift_ppb;
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if ((before & 1) == 0 && before == __atomic_load_n(&p->sequence, __ATOMIC_RELAXED)) {
            if (drift) offset += (int64_t)((__int128)(now - base) * drift / 1000000000);
            return now + offset;
        }
    }
    return now;
}

int clock_gettime(clockid_t clock, struct timespec *t) {
    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)
        return (int)syscall(SYS_clock_gettime, clock, t);
    int64_t ns = day_ns(clock);
    t->tv_sec = ns / 1000000000;
    t->tv_nsec = ns % 1000000000;
    return 0;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
    (void)zone;
    int64_t ns = day_ns(CLOCK_REALTIME);
    t->tv_sec = ns / 1000000000;
    t->tv_usec = ns % 1000000000 / 1000;
    return 0;
}

time_t time(time_t *t) {
    time_t now = day_ns(CLOCK_REALTIME) / 1000000000;
    if (t) *t = now;
    return now;
}

/* /proc/self/fd/<fd> without printf. */
static void link_of(int fd, char out[32]) {
    const char *head = "/proc/self/fd/";
    int n = 0, digits = 0;
    char reversed[12];
    while (head[n]) { out[n] = head[n]; n++; }
    do { reversed[digits++] = '0' + fd % 10; fd /= 10; } while (fd);
    while (digits) out[n++] = reversed[--digits];
    out[n] = 0;
}

/* A file is known by its inode from its first sync on. */
static volatile struct synced *entry_of(int fd, uint64_t inode) {
    for (int i = 0; i < FILES; i++) {
        volatile struct synced *e = &page->files[i];
        uint64_t none = 0;
        if (e->inode == inode) return e;
        if (e->inode == 0 && __atomic_compare_exchange_n(&e->inode, &none, inode, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            char link[32], path[PATH];
            link_of(fd, link);
            long n = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH - 1);
            for (long c = 0; c < n; c++) e->path[c] = path[c];
            return e;
        }
    }
    return 0;
}

static int synced(int fd, long call) {
    struct stat before;
    int known = page && syscall(SYS_fstat, fd, &before) == 0;
    int outcome = (int)syscall(call, fd);
    if (known && outcome == 0) {
        int kept = errno;
        volatile struct synced *e = entry_of(fd, before.st_ino);
        /* What was there before the call is on the disk after it; more may be. */
        if (e) __atomic_store_n(&e->size, (uint64_t)before.st_size, __ATOMIC_RELEASE);
        errno = kept;
    }
    return outcome;
}

int fsync(int fd) { return synced(fd, SYS_fsync); }
int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }

static int is_server(const char *name) {
    const char *end = "-server";
    int n = 0;
    while (name && name[n]) n++;
    if (n < 7) return 0;
    for (int i = 0; i < 7; i++)
        if (name[n - 7 + i] != end[i]) return 0;
    return 1;
}

/* What no sync had covered when the power went is gone, before the server reads a byte. */
static void cut(void) {
    uint64_t from = 0, to = 0;
    for (int i = 0; i < FILES; i++) {
        volatile struct synced *e = &page->files[i];
        struct stat now;
        if (!e->inode) continue;
        int fd = (int)syscall(SYS_openat, AT_FDCWD, (const char *)e->path, O_WRONLY | O_CLOEXEC);
        if (fd < 0) continue;
        if (syscall(SYS_fstat, fd, &now) == 0 && now.st_ino == e->inode) {
            uint64_t kept = (uint64_t)now.st_size;
            if (kept > e->size && syscall(SYS_ftruncate, fd, (off_t)e->size) == 0) kept = e->size;
            from += (uint64_t)now.st_size;
            to += kept;
        }
        syscall(SYS_close, fd);
    }
    page->cut_from = from;
    page->cut_to = to;
    __atomic_store_n(&page->cut, 2, __ATOMIC_RELEASE);
}

__attribute__((constructor)) static void begin(int argc, char **argv) {
    const char *path = getenv("FENCEPOST_PAGE");
    if (!path) return;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *at = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    if (at == MAP_FAILED) return;
    page = at;
    if (page->cut == 1 && argc > 0 && is_server(argv[0])) cut();
}
