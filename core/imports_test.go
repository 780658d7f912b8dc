package core_test

import (
	"encoding/json"
	"io"
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/lingjiyidong/lj/"

// leaves of core that any package but core itself may import, because they hold no state
// of the program: failpoints, masking, confinement, ending processes, git, the project
// directory.
var leaves = []string{"core", "core/fault", "core/secret", "core/sandbox", "core/process", "core/gitrepo", "core/workspace"}

// table says what the packages of a folder may import inside the module, their own
// sub-packages and the leaves aside. The longest folder that fits a package counts.
var table = map[string][]string{
	"core":                     {},
	"core/llm/llmtest":         {"core/llm"},
	"memory":                   {},
	"store":                    {"store/fts5"},
	"prompts":                  {},
	"evolve":                   {},
	"plugins/wire":             {},
	"plugins/sdk":              {},
	"plugins/builtin":          {"plugins/sdk"},
	"plugins/host":             {"plugins/wire/v1"},
	"plugins/registry":         {"plugins/wire/v1"},
	"plugins/plugintest":       {"plugins/host", "plugins/sdk", "plugins/wire/v1"},
	"cmd/lj":                   {"cmd/internal/app", "cmd/internal/cli"},
	"cmd/internal/cli":         {"cmd/internal/app", "cmd/internal/i18n", "cmd/internal/term", "core/llm/llmtest"},
	"cmd/internal/term":        {},
	"cmd/internal/i18n":        {},
	"cmd/internal/app":         {"*"},
	"cmd/internal/eval":        {"*"},
	"cmd/internal/modelserver": {"core/llm/llmtest"},
	"examples":                 {"plugins/sdk"},
}

// alone names packages that only some folders may import.
var alone = map[string][]string{
	"github.com/sashabaranov/go-openai": {"core/llm"},
	"github.com/go-git/go-git/v5":       {"core/gitrepo"},
	"github.com/yanyiwu/gojieba":        {"memory/segment"},
	"github.com/mattn/go-sqlite3":       {"store", "store/fts5"},
	"github.com/spf13/viper":            {"cmd/internal/app"},
	"github.com/spf13/cobra":            {"cmd/internal/cli"},
	"github.com/hashicorp/go-plugin":    {"plugins/host", "plugins/plugintest"},
	"github.com/tree-sitter":            {"plugins/builtin/internal/outline"},
	"google.golang.org/grpc":            {"plugins/host", "plugins/plugintest", "plugins/wire/v1"},
}

// The map of the packages is what the table says: core knows nobody, nobody imports
// sideways, cmd/internal/app joins everything.
func TestImportTable(t *testing.T) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", module+"...")
	cmd.Dir = ".."
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for dec := json.NewDecoder(out); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		seen++
		name := strings.TrimPrefix(p.ImportPath, module)
		for _, imp := range p.Imports {
			if imp == strings.TrimSuffix(module, "/") || strings.HasPrefix(imp, module) {
				if why := forbidden(name, strings.TrimPrefix(imp, module)); why != "" {
					t.Errorf("%s imports %s: %s", name, strings.TrimPrefix(imp, module), why)
				}
				continue
			}
			first, _, _ := strings.Cut(imp, "/")
			if strings.Contains(first, ".") && (name == "core" || name == "plugins/sdk") {
				t.Errorf("%s imports %s: the standard library only", name, imp)
			}
			for lib, who := range alone {
				if (imp == lib || strings.HasPrefix(imp, lib+"/")) && !within(name, who) {
					t.Errorf("%s imports %s, which belongs to %s", name, imp, strings.Join(who, ", "))
				}
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if seen < 10 {
		t.Fatalf("go list named %d packages", seen)
	}
}

func within(name string, folders []string) bool {
	for _, f := range folders {
		if name == f || strings.HasPrefix(name, f+"/") {
			return true
		}
	}
	return false
}

func forbidden(name, imp string) string {
	folder, allowed := "", []string(nil)
	for f, list := range table {
		if (name == f || strings.HasPrefix(name, f+"/")) && len(f) >= len(folder) {
			folder, allowed = f, list
		}
	}
	switch {
	case folder == "":
		return "the table does not know this folder"
	case name == "core" || name == "plugins/sdk" || strings.HasPrefix(name, "plugins/wire"):
		return "it imports nothing of the module"
	case len(allowed) == 1 && allowed[0] == "*":
		return ""
	case within(imp, allowed):
		return ""
	}
	for _, l := range leaves {
		if imp == l {
			return ""
		}
	}
	// Its own sub-packages, and in core the room's own: core/llm, core/agent …
	room := folder
	if folder == "core" {
		parts := strings.SplitN(name, "/", 3)
		room = strings.Join(parts[:min(2, len(parts))], "/")
	}
	if within(imp, []string{room}) {
		return ""
	}
	return "not in the table"
}
