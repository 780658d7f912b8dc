#ifndef LIST_H
#define LIST_H
#define LIST_MAX 10
#define LIST_EACH(l, x) for (x = (l)->head; x; x = x->next)
typedef struct node {
	struct node *next;
	int (*free)(void *);
} node_t;
enum color { RED, GREEN };
union value { int i; float f; };
extern int list_count;
node_t *list_new(int n,
                 void (*done)(int));
int list_len(const node_t *l);
static inline int twice(int a) { return 2 * a; }
struct node;
typedef int (*cmp_fn)(const void *, const void *);
static const char *names[] = { "a", "b" };
#endif
