package gitrepo

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/index"
	"github.com/go-git/go-git/v5/plumbing/format/objfile"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/lingjiyidong/lj/core"
)

// Repo is one repository with a work tree. Open it again after another program may have
// packed it.
type Repo struct {
	dir string // of the work tree
	git string // its .git
	st  *filesystem.Storage
}

// Main is the branch that HEAD names in a repository made by Init.
const Main = "refs/heads/main"

// ErrDamaged is returned, wrapped, where an object that must be there is not, or is not
// what its name says.
var ErrDamaged = errors.New("git repository is damaged")

// Init opens the repository whose work tree is dir, and makes it when there is none. A
// crash in between leaves what the next Init completes.
func Init(dir string) (*Repo, error) {
	git := filepath.Join(dir, ".git")
	for _, d := range []string{"objects/info", "objects/pack", "refs/heads", "refs/tags", "info"} {
		if err := os.MkdirAll(filepath.Join(git, d), 0o700); err != nil {
			return nil, fmt.Errorf("make repository %s: %w", dir, err)
		}
	}
	for _, f := range []struct{ name, text string }{
		{"config", "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = false\n"},
		{"HEAD", "ref: " + Main + "\n"},
	} {
		p := filepath.Join(git, f.name)
		if fi, err := os.Stat(p); err == nil && fi.Size() > 0 {
			continue
		}
		if err := replaceFile(p, []byte(f.text)); err != nil {
			return nil, fmt.Errorf("make repository %s: %w", dir, err)
		}
	}
	return Open(dir)
}

// Open opens the repository whose work tree is dir. The error wraps core.ErrNotFound when
// there is none.
func Open(dir string) (*Repo, error) {
	git := filepath.Join(dir, ".git")
	if fi, err := os.Stat(filepath.Join(git, "HEAD")); err != nil || !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("open repository %s: %w", dir, core.ErrNotFound)
	}
	return &Repo{dir: dir, git: git, st: filesystem.NewStorage(osfs.New(git), cache.NewObjectLRU(4*cache.MiByte))}, nil
}

// Dir is the work tree, GitDir its .git.
func (r *Repo) Dir() string    { return r.dir }
func (r *Repo) GitDir() string { return r.git }

// Object is one object that is not stored yet.
type Object struct {
	Hash string // hex
	typ  plumbing.ObjectType
	data []byte
}

// Edit is a commit in terms of what it changes.
type Edit struct {
	Parent string // commit whose tree is changed; "" for the first
	// Replace sets whole directories (slash-separated, below the root) to these files, by
	// paths relative to them; a nil map removes the directory. "" is not allowed.
	Replace map[string]map[string][]byte
	// Files sets single files; nil data removes.
	Files   map[string][]byte
	Message string
	Time    time.Time
	// Tag makes an annotated tag object beside the commit when it is not "": the name
	// without refs/tags/.
	Tag string
}

// Batch is a planned commit: its objects, none of them stored.
type Batch struct {
	Commit  string
	Tree    string
	Tag     string   // hash of the tag object, "" for none
	Objects []Object // what the repository does not have yet
}

// Hashes are the names of the batch's objects.
func (b *Batch) Hashes() []string {
	out := make([]string, len(b.Objects))
	for i, o := range b.Objects {
		out[i] = o.Hash
	}
	return out
}

func signature(t time.Time) object.Signature {
	return object.Signature{Name: "lj", Email: "lj@localhost", When: t.UTC().Truncate(time.Second)}
}

// node is a tree in memory: loaded ones know their entries, the rest is made from edits.
type node struct {
	entries map[string]object.TreeEntry
	dirs    map[string]*node // changed below
}

func (r *Repo) load(h plumbing.Hash) (*node, error) {
	n := &node{entries: map[string]object.TreeEntry{}, dirs: map[string]*node{}}
	if h.IsZero() {
		return n, nil
	}
	t, err := object.GetTree(r.st, h)
	if err != nil {
		return nil, fmt.Errorf("%w: tree %s: %w", ErrDamaged, h, err)
	}
	for _, e := range t.Entries {
		n.entries[e.Name] = e
	}
	return n, nil
}

func (r *Repo) descend(n *node, name string) (*node, error) {
	if d, ok := n.dirs[name]; ok {
		return d, nil
	}
	h := plumbing.ZeroHash
	if e, ok := n.entries[name]; ok && e.Mode == filemode.Dir {
		h = e.Hash
	}
	d, err := r.load(h)
	if err != nil {
		return nil, err
	}
	n.dirs[name] = d
	return d, nil
}

type planner struct {
	r    *Repo
	seen map[string]bool
	out  []Object
}

func (p *planner) add(typ plumbing.ObjectType, data []byte) plumbing.Hash {
	h := plumbing.ComputeHash(typ, data)
	if !p.seen[h.String()] {
		p.seen[h.String()] = true
		if p.r.st.HasEncodedObject(h) != nil {
			p.out = append(p.out, Object{h.String(), typ, data})
		}
	}
	return h
}

func encoded(o interface {
	Encode(plumbing.EncodedObject) error
}) ([]byte, error) {
	var m plumbing.MemoryObject
	if err := o.Encode(&m); err != nil {
		return nil, err
	}
	rd, err := m.Reader()
	if err != nil {
		return nil, err
	}
	return io.ReadAll(rd)
}

func (p *planner) tree(n *node) (plumbing.Hash, error) {
	for name, d := range n.dirs {
		if len(d.entries) == 0 && len(d.dirs) == 0 {
			delete(n.entries, name)
			continue
		}
		h, err := p.tree(d)
		if err != nil {
			return h, err
		}
		if h.IsZero() {
			delete(n.entries, name)
			continue
		}
		n.entries[name] = object.TreeEntry{Name: name, Mode: filemode.Dir, Hash: h}
	}
	if len(n.entries) == 0 {
		return plumbing.ZeroHash, nil
	}
	t := &object.Tree{}
	for _, e := range n.entries {
		t.Entries = append(t.Entries, e)
	}
	sort.Sort(object.TreeEntrySorter(t.Entries))
	b, err := encoded(t)
	if err != nil {
		return plumbing.ZeroHash, fmt.Errorf("encode tree: %w", err)
	}
	return p.add(plumbing.TreeObject, b), nil
}

func checkPath(p string) error {
	if p == "" || path.Clean(p) != p || path.IsAbs(p) || strings.HasPrefix(p, "..") {
		return fmt.Errorf("path %q is not clean", p)
	}
	for part := range strings.SplitSeq(p, "/") {
		if strings.EqualFold(part, ".git") || strings.ContainsAny(part, "\x00") {
			return fmt.Errorf("path %q is not allowed in a repository", p)
		}
	}
	return nil
}

// Plan makes the objects of a commit in memory. Nothing is written.
func (r *Repo) Plan(e Edit) (*Batch, error) {
	root := &node{entries: map[string]object.TreeEntry{}, dirs: map[string]*node{}}
	var parents []plumbing.Hash
	if e.Parent != "" {
		c, err := r.commit(e.Parent)
		if err != nil {
			return nil, err
		}
		parents = []plumbing.Hash{c.Hash}
		if root, err = r.load(c.TreeHash); err != nil {
			return nil, err
		}
	}
	p := &planner{r: r, seen: map[string]bool{}}
	set := func(file string, data []byte) error {
		if err := checkPath(file); err != nil {
			return err
		}
		n := root
		dir, name := path.Split(file)
		for part := range strings.SplitSeq(strings.TrimSuffix(dir, "/"), "/") {
			if part == "" {
				continue
			}
			var err error
			if n, err = r.descend(n, part); err != nil {
				return err
			}
		}
		delete(n.dirs, name)
		if data == nil {
			delete(n.entries, name)
			return nil
		}
		n.entries[name] = object.TreeEntry{Name: name, Mode: filemode.Regular, Hash: p.add(plumbing.BlobObject, data)}
		return nil
	}
	for dir, files := range e.Replace {
		if err := set(dir, nil); err != nil {
			return nil, err
		}
		for name, data := range files {
			if data == nil {
				data = []byte{}
			}
			if err := set(dir+"/"+name, data); err != nil {
				return nil, err
			}
		}
	}
	for name, data := range e.Files {
		if err := set(name, data); err != nil {
			return nil, err
		}
	}
	tree, err := p.tree(root)
	if err != nil {
		return nil, err
	}
	if tree.IsZero() {
		tree = p.add(plumbing.TreeObject, nil)
	}
	c := &object.Commit{Author: signature(e.Time), Committer: signature(e.Time), Message: e.Message, TreeHash: tree, ParentHashes: parents}
	b, err := encoded(c)
	if err != nil {
		return nil, fmt.Errorf("encode commit: %w", err)
	}
	ch := p.add(plumbing.CommitObject, b)
	batch := &Batch{Commit: ch.String(), Tree: tree.String()}
	if e.Tag != "" {
		h, err := p.tag(e.Tag, ch, e.Message, e.Time)
		if err != nil {
			return nil, err
		}
		batch.Tag = h.String()
	}
	batch.Objects = p.out
	return batch, nil
}

func (p *planner) tag(name string, commit plumbing.Hash, message string, at time.Time) (plumbing.Hash, error) {
	t := &object.Tag{Name: name, Tagger: signature(at), Message: message, TargetType: plumbing.CommitObject, Target: commit}
	b, err := encoded(t)
	if err != nil {
		return plumbing.ZeroHash, fmt.Errorf("encode tag: %w", err)
	}
	return p.add(plumbing.TagObject, b), nil
}

// PlanTag makes the tag object that Plan made beside a commit again; Batch.Objects is
// empty when it is still stored.
func (r *Repo) PlanTag(name, commit string) (*Batch, error) {
	c, err := r.commit(commit)
	if err != nil {
		return nil, err
	}
	p := &planner{r: r, seen: map[string]bool{}}
	h, err := p.tag(name, c.Hash, c.Message, c.Committer.When)
	if err != nil {
		return nil, err
	}
	return &Batch{Commit: commit, Tree: c.TreeHash.String(), Tag: h.String(), Objects: p.out}, nil
}

func (r *Repo) loose(hash string) string {
	return filepath.Join(r.git, "objects", hash[:2], hash[2:])
}

// Write stores objects. When it returns they are on the disk, names included.
func (r *Repo) Write(objects []Object) error {
	type file struct{ tmp, to string }
	var files []file
	undo := func() {
		for _, f := range files {
			os.Remove(f.tmp)
		}
	}
	dirs := map[string]bool{filepath.Join(r.git, "objects"): true}
	var open []*os.File
	for _, o := range objects {
		to := r.loose(o.Hash)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			undo()
			return fmt.Errorf("store object: %w", err)
		}
		dirs[filepath.Dir(to)] = true
		f, err := os.CreateTemp(filepath.Join(r.git, "objects"), "tmp_obj_")
		if err == nil {
			files = append(files, file{f.Name(), to})
			open = append(open, f)
			err = encodeLoose(f, o)
		}
		if err != nil {
			for _, f := range open {
				f.Close()
			}
			undo()
			return fmt.Errorf("store object: %w", err)
		}
	}
	if err := each(open, func(f *os.File) error {
		return errors.Join(f.Sync(), f.Chmod(0o444), f.Close())
	}); err != nil {
		undo()
		return fmt.Errorf("store object: %w", err)
	}
	for _, f := range files {
		if err := os.Rename(f.tmp, f.to); err != nil {
			undo()
			return fmt.Errorf("store object: %w", err)
		}
	}
	var list []string
	for d := range dirs {
		list = append(list, d)
	}
	return each(list, SyncDir)
}

func encodeLoose(w io.Writer, o Object) error {
	z := objfile.NewWriter(w)
	if err := z.WriteHeader(o.typ, int64(len(o.data))); err != nil {
		return err
	}
	if _, err := z.Write(o.data); err != nil {
		return err
	}
	return z.Close()
}

// each runs f on all items at once, so that the disk gathers their writes.
func each[T any](items []T, f func(T) error) error {
	errs := make(chan error, len(items))
	for _, it := range items {
		go func() { errs <- f(it) }()
	}
	var err error
	for range items {
		err = errors.Join(err, <-errs)
	}
	return err
}

// Drop removes loose objects that nothing names: what Write stored for a change that was
// then undone. Objects that are not there are passed over.
func (r *Repo) Drop(hashes []string) error {
	var err error
	for _, h := range hashes {
		if len(h) != 40 {
			continue
		}
		if e := os.Remove(r.loose(h)); e != nil && !errors.Is(e, os.ErrNotExist) {
			err = errors.Join(err, e)
		}
		os.Remove(filepath.Dir(r.loose(h))) // only when it is empty
	}
	if err != nil {
		return fmt.Errorf("remove objects: %w", err)
	}
	return nil
}

// CleanTemp removes what a killed Write left. Writers must be locked out.
func (r *Repo) CleanTemp() {
	list, err := filepath.Glob(filepath.Join(r.git, "objects", "tmp_obj_*"))
	if err != nil {
		return
	}
	for _, f := range list {
		os.Remove(f)
	}
}

func (r *Repo) commit(hash string) (*object.Commit, error) {
	if !plumbing.IsHash(hash) {
		return nil, fmt.Errorf("commit %q: %w", hash, core.ErrNotFound)
	}
	c, err := object.GetCommit(r.st, plumbing.NewHash(hash))
	if err != nil {
		return nil, fmt.Errorf("%w: commit %s: %w", ErrDamaged, hash, err)
	}
	return c, nil
}

// Commit is what is known of one commit.
type Commit struct {
	Hash    string
	Tree    string
	Parents []string
	Message string
	Time    time.Time
}

// Commit reads a commit.
func (r *Repo) Commit(hash string) (Commit, error) {
	c, err := r.commit(hash)
	if err != nil {
		return Commit{}, err
	}
	out := Commit{Hash: hash, Tree: c.TreeHash.String(), Message: c.Message, Time: c.Committer.When}
	for _, p := range c.ParentHashes {
		out.Parents = append(out.Parents, p.String())
	}
	return out, nil
}

// Peel is the commit that a tag object or commit stands for.
func (r *Repo) Peel(hash string) (string, error) {
	h := plumbing.NewHash(hash)
	for range 4 {
		o, err := r.st.EncodedObject(plumbing.AnyObject, h)
		if err != nil {
			return "", fmt.Errorf("%w: object %s: %w", ErrDamaged, h, err)
		}
		if o.Type() == plumbing.CommitObject {
			return h.String(), nil
		}
		t, err := object.DecodeTag(r.st, o)
		if err != nil {
			return "", fmt.Errorf("%w: object %s is neither tag nor commit", ErrDamaged, h)
		}
		h = t.Target
	}
	return "", fmt.Errorf("%w: tag %s names tags", ErrDamaged, hash)
}

// Files are the regular files below dir ("" for all) in the tree of a commit, by paths
// relative to dir. A directory that is not there has none.
func (r *Repo) Files(commit, dir string) (map[string][]byte, error) {
	c, err := r.commit(commit)
	if err != nil {
		return nil, err
	}
	t, err := object.GetTree(r.st, c.TreeHash)
	if err != nil {
		return nil, fmt.Errorf("%w: tree of %s: %w", ErrDamaged, commit, err)
	}
	out := map[string][]byte{}
	if dir != "" {
		sub, err := t.Tree(dir)
		if errors.Is(err, object.ErrDirectoryNotFound) || errors.Is(err, object.ErrEntryNotFound) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %s in %s: %w", ErrDamaged, dir, commit, err)
		}
		t = sub
	}
	w := object.NewTreeWalker(t, true, nil)
	defer w.Close()
	for {
		name, e, err := w.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w: files of %s: %w", ErrDamaged, commit, err)
		}
		if !e.Mode.IsFile() {
			continue
		}
		if out[name], err = r.blob(e.Hash); err != nil {
			return nil, fmt.Errorf("%s of %s: %w", name, commit, err)
		}
	}
}

// blob reads a blob and compares it with its name.
func (r *Repo) blob(h plumbing.Hash) ([]byte, error) {
	o, err := r.st.EncodedObject(plumbing.BlobObject, h)
	if err != nil {
		return nil, fmt.Errorf("%w: blob %s: %w", ErrDamaged, h, err)
	}
	rd, err := o.Reader()
	if err != nil {
		return nil, fmt.Errorf("%w: blob %s: %w", ErrDamaged, h, err)
	}
	defer rd.Close()
	b, err := io.ReadAll(rd)
	if err != nil {
		return nil, fmt.Errorf("%w: blob %s: %w", ErrDamaged, h, err)
	}
	if plumbing.ComputeHash(plumbing.BlobObject, b) != h {
		return nil, fmt.Errorf("%w: blob %s is not what its name says", ErrDamaged, h)
	}
	return b, nil
}

// File is one regular file in the tree of a commit. The error wraps core.ErrNotFound when
// there is none.
func (r *Repo) File(commit, name string) ([]byte, error) {
	c, err := r.commit(commit)
	if err != nil {
		return nil, err
	}
	t, err := object.GetTree(r.st, c.TreeHash)
	if err != nil {
		return nil, fmt.Errorf("%w: tree of %s: %w", ErrDamaged, commit, err)
	}
	e, err := t.FindEntry(name)
	if errors.Is(err, object.ErrEntryNotFound) || errors.Is(err, object.ErrDirectoryNotFound) || err == nil && !e.Mode.IsFile() {
		return nil, fmt.Errorf("%s in %s: %w", name, commit, core.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s in %s: %w", ErrDamaged, name, commit, err)
	}
	return r.blob(e.Hash)
}

// Ref is the hash that a ref holds, "" when there is none.
func (r *Repo) Ref(name string) (string, error) {
	ref, err := r.st.Reference(plumbing.ReferenceName(name))
	if errors.Is(err, plumbing.ErrReferenceNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read ref %s: %w", name, err)
	}
	if ref.Type() != plumbing.HashReference {
		return "", nil
	}
	return ref.Hash().String(), nil
}

// Refs are the refs whose name begins with prefix.
func (r *Repo) Refs(prefix string) (map[string]string, error) {
	it, err := r.st.IterReferences()
	if err != nil {
		return nil, fmt.Errorf("list refs: %w", err)
	}
	defer it.Close()
	out := map[string]string{}
	err = it.ForEach(func(ref *plumbing.Reference) error {
		if n := string(ref.Name()); ref.Type() == plumbing.HashReference && strings.HasPrefix(n, prefix) {
			out[n] = ref.Hash().String()
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list refs: %w", err)
	}
	return out, nil
}

// SetRefs sets refs to hashes, each in one step and on the disk when it returns; "" removes
// one. They are set in the order of their names.
func (r *Repo) SetRefs(refs map[string]string) error {
	names := make([]string, 0, len(refs))
	for n := range refs {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		if err := checkPath(n); err != nil || !strings.HasPrefix(n, "refs/") {
			return fmt.Errorf("set ref: name %q is not valid", n)
		}
		file := filepath.Join(r.git, filepath.FromSlash(n))
		if refs[n] == "" {
			if err := r.st.RemoveReference(plumbing.ReferenceName(n)); err != nil {
				return fmt.Errorf("remove ref %s: %w", n, err)
			}
			if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("remove ref %s: %w", n, err)
			}
			continue
		}
		if !plumbing.IsHash(refs[n]) {
			return fmt.Errorf("set ref %s: %q is no hash", n, refs[n])
		}
		text := []byte(refs[n] + "\n")
		if have, err := os.ReadFile(file); err == nil && bytes.Equal(have, text) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return fmt.Errorf("set ref %s: %w", n, err)
		}
		if err := replaceFile(file, text); err != nil {
			return fmt.Errorf("set ref %s: %w", n, err)
		}
	}
	return nil
}

// WriteIndex makes the index agree with a commit's tree, so that git sees a clean work
// tree where its files agree too.
func (r *Repo) WriteIndex(commit string) error {
	c, err := r.commit(commit)
	if err != nil {
		return err
	}
	t, err := object.GetTree(r.st, c.TreeHash)
	if err != nil {
		return fmt.Errorf("%w: tree of %s: %w", ErrDamaged, commit, err)
	}
	idx := &index.Index{Version: 2}
	w := object.NewTreeWalker(t, true, nil)
	defer w.Close()
	for {
		name, e, err := w.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("%w: tree of %s: %w", ErrDamaged, commit, err)
		}
		if e.Mode != filemode.Dir {
			idx.Entries = append(idx.Entries, &index.Entry{Name: name, Hash: e.Hash, Mode: e.Mode})
		}
	}
	var b bytes.Buffer
	if err := index.NewEncoder(&b).Encode(idx); err != nil {
		return fmt.Errorf("write index: %w", err)
	}
	return replaceFile(filepath.Join(r.git, "index"), b.Bytes())
}

// Verify reads every object that refs reach and compares it with its name.
func (r *Repo) Verify() error {
	refs, err := r.Refs("refs/")
	if err != nil {
		return err
	}
	seen := map[plumbing.Hash]bool{}
	var visit func(h plumbing.Hash) error
	visit = func(h plumbing.Hash) error {
		if seen[h] {
			return nil
		}
		seen[h] = true
		o, err := r.st.EncodedObject(plumbing.AnyObject, h)
		if err != nil {
			return fmt.Errorf("%w: object %s: %w", ErrDamaged, h, err)
		}
		rd, err := o.Reader()
		if err != nil {
			return fmt.Errorf("%w: object %s: %w", ErrDamaged, h, err)
		}
		data, err := io.ReadAll(rd)
		rd.Close()
		if err != nil || plumbing.ComputeHash(o.Type(), data) != h {
			return fmt.Errorf("%w: object %s is not what its name says", ErrDamaged, h)
		}
		var next []plumbing.Hash
		switch o.Type() {
		case plumbing.CommitObject:
			c, err := object.DecodeCommit(r.st, o)
			if err != nil {
				return fmt.Errorf("%w: commit %s: %w", ErrDamaged, h, err)
			}
			next = append(c.ParentHashes, c.TreeHash)
		case plumbing.TreeObject:
			t, err := object.DecodeTree(r.st, o)
			if err != nil {
				return fmt.Errorf("%w: tree %s: %w", ErrDamaged, h, err)
			}
			for _, e := range t.Entries {
				next = append(next, e.Hash)
			}
		case plumbing.TagObject:
			t, err := object.DecodeTag(r.st, o)
			if err != nil {
				return fmt.Errorf("%w: tag %s: %w", ErrDamaged, h, err)
			}
			next = append(next, t.Target)
		}
		for _, n := range next {
			if err := visit(n); err != nil {
				return err
			}
		}
		return nil
	}
	for name, h := range refs {
		if err := visit(plumbing.NewHash(h)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
