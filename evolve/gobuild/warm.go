package gobuild

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lingjiyidong/lj/core"
)

// common are packages of the standard library that tools use often.
var common = []string{
	"archive/tar", "archive/zip", "bufio", "bytes", "cmp", "compress/gzip", "container/heap", "context", "crypto/md5", "crypto/rand",
	"crypto/sha1", "crypto/sha256", "crypto/sha512", "embed", "encoding/base32", "encoding/base64", "encoding/binary", "encoding/csv",
	"encoding/hex", "encoding/json", "encoding/xml", "errors", "fmt", "go/ast", "go/parser", "go/token", "hash/crc32", "hash/fnv", "html", "html/template",
	"image", "image/color", "image/gif", "image/jpeg", "image/png", "io", "io/fs", "maps", "math", "math/big", "math/bits", "math/rand",
	"math/rand/v2", "mime", "net/http", "net/url", "os", "os/exec", "path", "path/filepath", "regexp", "slices", "sort", "strconv",
	"strings", "sync", "testing", "text/tabwriter", "text/template", "time", "time/tzdata", "unicode", "unicode/utf16", "unicode/utf8",
}

// stampName lies in the build cache itself, so that a copied cache is warm.
func (t *Toolchain) stamp() string {
	return filepath.Join(t.buildCache(), "lj-warm-"+t.version+".txt")
}

// Warm says whether the cache holds the standard library for this go command and these
// flags.
func (t *Toolchain) Warm() bool {
	_, err := os.Stat(t.stamp())
	return err == nil
}

// WarmUp compiles the standard library into the cache, vets what vet needs of it, and
// leaves the mark that Warm looks for. dir is a module with a program in pkg and its test.
// progress takes a line now and then; nil for nobody.
func (t *Toolchain) WarmUp(ctx context.Context, dir, pkg string, progress func(string)) error {
	if t.Warm() {
		return nil
	}
	if progress == nil {
		progress = func(string) {}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, t.o.WarmTime, errTime)
	defer cancel()
	work := filepath.Join(dir, filepath.FromSlash(pkg))
	fail := func(what string, out []byte, err error) error {
		if errors.Is(context.Cause(ctx), errTime) {
			return core.Errorf(core.KindFailed, "prepare the build cache: took longer than %s", t.o.WarmTime)
		}
		return core.Errorf(core.KindFailed, "prepare the build cache: %s: %s: %w", what, clip(strings.TrimSpace(string(out)), 500), err)
	}
	out, err := t.run(ctx, work, []string{dir}, append([]string{"list", "-deps", "-f", "{{.ImportPath}}"}, common...)...)
	if err != nil {
		return fail("list packages", out, err)
	}
	total := strings.Count(string(out), "\n")
	progress(fmt.Sprintf("preparing the compiler's cache, once: %d packages of the standard library", total))
	// In portions, so that there is something to tell and a cancel finds a place.
	began := time.Now()
	list := strings.Fields(string(out))
	const portion = 24
	for i := 0; i < len(list); i += portion {
		if out, err := t.run(ctx, work, []string{dir}, append(append([]string{"build"}, buildFlags...), list[i:min(i+portion, len(list))]...)...); err != nil {
			return fail("build", out, err)
		}
		progress(fmt.Sprintf("preparing the compiler's cache: %d of %d packages, %.0f s", min(i+portion, len(list)), total, time.Since(began).Seconds()))
	}
	for _, step := range []struct {
		what string
		args []string
	}{
		{"build", append([]string{"build", ldflags, "-o", filepath.Join(dir, "warm.bin")}, buildFlags...)},
		{"test", append([]string{"test", "-c", "-vet=off", ldflags, "-o", filepath.Join(dir, "warm.test")}, buildFlags...)},
		{"vet", append([]string{"vet"}, buildFlags...)},
	} {
		progress("preparing the compiler's cache: " + step.what)
		if out, err := t.run(ctx, work, []string{dir}, append(step.args, ".")...); err != nil {
			return fail(step.what, out, err)
		}
	}
	if err := os.WriteFile(t.stamp(), []byte(Flags+"\n"), 0o600); err != nil {
		return core.Errorf(core.KindFailed, "prepare the build cache: %w", err)
	}
	return nil
}
