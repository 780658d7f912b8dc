// Package gitrepo owns reading and writing git repositories that belong to lj: objects,
// trees, commits, tags, refs and the index, on disk as git itself keeps them. It is the
// only importer of go-git. It knows nothing of tools, snapshots or what a commit means,
// and never touches a repository that it was not given.
//
//	r, err := gitrepo.Init(dir)                              // opens it, or makes it
//	b, err := r.Plan(gitrepo.Edit{Parent: head, Replace: map[string]map[string][]byte{"tools/x": files}, …})
//	err = r.Write(b.Objects)                                 // on the disk when it returns
//	err = r.SetRefs(map[string]string{"refs/heads/main": b.Commit})
//
// Objects are durable before a ref can name them; a ref is replaced in one step. Writers
// take turns with Lock; readers need no lock. A Repo is safe for use by several
// goroutines as long as writers hold the lock.
package gitrepo
