package toolkit

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/gitrepo"
)

// Verify holds an accepted version as the database knows it against the toolkit's
// repository and the stored program: commit, source and program must be what was accepted.
// A program that is not there any more says nothing.
func (t *Toolkit) Verify(v core.ToolVersion) error {
	repo, err := gitrepo.Open(t.dir())
	if err != nil {
		return fmt.Errorf("the toolkit's repository can't be opened: %w", err)
	}
	got, err := t.readVersion(repo, v.Commit, v.Name, v.Version)
	if err != nil {
		return fmt.Errorf("its commit %.12s: %w", v.Commit, err)
	}
	if got.Source != v.Source {
		return errors.New("the source in its commit is not the one that was accepted")
	}
	f, err := os.Open(t.program(v.Name, v.Recipe))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("its program: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return fmt.Errorf("its program: %w", err)
	}
	if hex.EncodeToString(h.Sum(nil)) != v.SHA256 {
		return errors.New("its program is not the one that was accepted")
	}
	return nil
}
