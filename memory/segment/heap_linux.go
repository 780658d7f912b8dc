package segment

/*
#include <stdint.h>
#include <stdlib.h>

#ifdef __GLIBC__
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

// One heap for all threads: others are of 64 MB at most, too small for the dictionary, and
// each keeps what it has freed for itself. Threads keep their own caches of small pieces.
__attribute__((constructor)) static void one_heap(void) { mallopt(M_ARENA_MAX, 1); }

static void heap_grow(size_t size) {
	mallopt(M_MMAP_MAX, 0);
	mallopt(M_TRIM_THRESHOLD, INT32_MAX);
	char *p = malloc(size);
	if (p == NULL) return;
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t from = ((uintptr_t)p + page - 1) & ~(page - 1);
	// What the kernel makes of the advice is its own affair.
	(void)madvise((void *)from, ((uintptr_t)p + size - from) & ~(page - 1), MADV_HUGEPAGE);
	free(p);
}

static void heap_settle(void) {
	mallopt(M_MMAP_MAX, 65536);
	mallopt(M_MMAP_THRESHOLD, 32 << 20);
	mallopt(M_TRIM_THRESHOLD, 64 << 20);
	malloc_trim(0);
}
#else
static void heap_grow(size_t size) { (void)size; }
static void heap_settle(void) {}
#endif
*/
import "C"

// dictionaryHeap is what the library has in use at most while it loads, in bytes.
const dictionaryHeap = 160 << 20

// onLargePages runs load on a C heap that has grown once, in large pages where the kernel
// has them, and that takes nothing back from load until its end; then what is left over
// goes back to the system. The library makes and drops tables of up to 60 MB, which by
// default come from the kernel anew each time, in pages of 4 KB: giving those out takes
// longer than loading does, most of all on virtual machines.
func onLargePages(load func()) {
	C.heap_grow(dictionaryHeap)
	defer C.heap_settle()
	load()
}
