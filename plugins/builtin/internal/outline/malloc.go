package outline

// #include <stddef.h>
// void ts_set_allocator(void *(*m)(size_t), void *(*c)(size_t, size_t), void *(*r)(void *, size_t), void (*f)(void *));
// static void native(void) { ts_set_allocator(NULL, NULL, NULL, NULL); }
import "C"

import "sync"

// nativeMalloc makes tree-sitter call malloc itself. The Go binding installs an allocator
// that enters Go for each node of a tree, only to call malloc there; memory of the two may
// be mixed.
var nativeMalloc = sync.OnceFunc(func() { C.native() })
