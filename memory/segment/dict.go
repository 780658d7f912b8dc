package segment

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed" // the dictionaries
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// The dictionary and the model are those of cppjieba (MIT, dict/LICENSE), compressed.
//
//go:embed dict/jieba.dict.utf8.gz
var dictGZ []byte

//go:embed dict/hmm_model.utf8.gz
var hmmGZ []byte

// The lists that serve keyword extraction only must exist and must not be empty (the
// library ends the process otherwise), but may have a single line.
const (
	idfText  = "劳动防护 13.900677652\n"
	stopText = "的\n了\n和\n"
)

type file struct {
	name string
	gz   []byte // nil: text is the content
	text string
	size int64 // of the content

}

func fileList() []file {
	return []file{
		{name: "jieba.dict.utf8", gz: dictGZ, size: gzSize(dictGZ)},
		{name: "hmm_model.utf8", gz: hmmGZ, size: gzSize(hmmGZ)},
		{name: "user.dict.utf8"},
		{name: "idf.utf8", text: idfText, size: int64(len(idfText))},
		{name: "stop_words.utf8", text: stopText, size: int64(len(stopText))},
	}
}

// gzSize is the uncompressed size that a gzip stream ends with.
func gzSize(b []byte) int64 {
	t := b[len(b)-4:]
	return int64(t[0]) | int64(t[1])<<8 | int64(t[2])<<16 | int64(t[3])<<24
}

// digest names the contents of the dictionaries.
func digest() string {
	h := sha256.New()
	h.Write(dictGZ)
	h.Write(hmmGZ)
	io.WriteString(h, idfText+stopText)
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// unpack makes sure that the dictionary files exist below cache and returns their paths in
// the order that the library takes them.
func unpack(cache string) (paths [5]string, err error) {
	var tried error
	for _, base := range []string{cache, userCache(), ""} {
		if base == "" {
			base = filepath.Join(os.TempDir(), fmt.Sprintf("lj-cache-%d", os.Getuid()))
		}
		dir := filepath.Join(base, "dict-"+digest())
		paths, err = unpackInto(base, dir)
		if err == nil {
			return paths, nil
		}
		tried = errors.Join(tried, err)
	}
	return paths, fmt.Errorf("unpack dictionary: %w", tried)
}

func userCache() string {
	d, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(d, "lj")
}

func unpackInto(base, dir string) (paths [5]string, err error) {
	list := fileList()
	for i, f := range list {
		paths[i] = filepath.Join(dir, f.name)
	}
	if whole(dir, list) {
		return paths, nil
	}
	if err := os.MkdirAll(base, 0o700); err != nil {
		return paths, err
	}
	if err := ownedByUs(base); err != nil {
		return paths, err
	}
	tmp, err := os.MkdirTemp(base, ".dict-")
	if err != nil {
		return paths, err
	}
	defer os.RemoveAll(tmp)
	for _, f := range list {
		if err := write(filepath.Join(tmp, f.name), f); err != nil {
			return paths, err
		}
	}
	if err := os.Rename(tmp, dir); err != nil {
		// Another process was first, or what is there is damaged.
		if whole(dir, list) {
			return paths, nil
		}
		broken := tmp + ".broken"
		if err := os.Rename(dir, broken); err != nil {
			return paths, err
		}
		defer os.RemoveAll(broken)
		if err := os.Rename(tmp, dir); err != nil && !whole(dir, list) {
			return paths, err
		}
	}
	return paths, nil
}

// ownedByUs refuses a directory that somebody else could have prepared.
func ownedByUs(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || ok && int(st.Uid) != os.Getuid() {
		return fmt.Errorf("%s is not a directory of this user", dir)
	}
	return nil
}

// whole says whether every file is there with the size that it must have: an empty list
// makes the library end the process.
func whole(dir string, list []file) bool {
	for _, f := range list {
		info, err := os.Stat(filepath.Join(dir, f.name))
		if err != nil || !info.Mode().IsRegular() || info.Size() != f.size {
			return false
		}
	}
	return true
}

func write(path string, f file) error {
	out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	n := int64(len(f.text))
	if f.gz == nil {
		_, err = out.WriteString(f.text)
	} else {
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(f.gz)); err == nil {
			n, err = io.Copy(out, z)
		}
	}
	if err == nil && n != f.size {
		err = fmt.Errorf("%s: %d bytes instead of %d", f.name, n, f.size)
	}
	return errors.Join(err, out.Close())
}
