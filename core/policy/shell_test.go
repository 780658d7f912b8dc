package policy

import (
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"
)

// These tests hold the reading of lines against a real shell: what the parser and the
// shell take differently is where a command hides. Lines are put together at random from
// a fixed seed; LJ_TEST_PROVE makes the campaigns long and the seed new.

// campaign calls round, which says whether it ran the shell, until enough did.
func campaign(t *testing.T, round func(*rand.Rand) bool) {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("there is no bash here")
	}
	runs, seed, limit := 60, int64(1), 30*time.Second
	if os.Getenv("LJ_TEST_PROVE") != "" {
		runs, seed, limit = 10000, time.Now().UnixNano(), 3*time.Minute
	}
	r := rand.New(rand.NewSource(seed))
	end := time.Now().Add(limit)
	ran := 0
	for ran < runs && time.Now().Before(end) {
		if round(r) {
			ran++
		}
	}
	if ran < 20 {
		t.Errorf("only %d lines were run: too few to show anything", ran)
	}
	t.Logf("seed %d: %d lines run", seed, ran)
}

// inShell runs a line and says what it printed.
func inShell(dir, src string) string {
	cmd := exec.Command("bash", "--noprofile", "--norc", "-c", src)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nowhere", "LANG=C.UTF-8"}
	cmd.WaitDelay = time.Second
	stop := time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Kill() })
	defer stop.Stop()
	out, _ := cmd.Output()
	return string(out)
}

func pick(r *rand.Rand, list []string) string { return list[r.Intn(len(list))] }

// leavesNoTrace runs lines that are judged harmless and compares the project.
func leavesNoTrace(t *testing.T, line func(*rand.Rand) string) {
	t.Helper()
	p, dir := project(t)
	before := tree(t, dir)
	campaign(t, func(r *rand.Rand) bool {
		src := line(r)
		if !strings.Contains(src, "pwned") || p.line(src).Rule != RuleHarmless {
			return false
		}
		inShell(dir, src)
		if after := tree(t, dir); after != before {
			t.Fatalf("%q is judged harmless and changed the project:\n%s\nwas:\n%s", src, after, before)
		}
		return true
	})
}

func TestHarmlessLinesLeaveNoTrace(t *testing.T) {
	starts := []string{"ls ", "echo ", "cat ", "", "echo \"", "cat <<EOF\n", "cat <<'EOF'\n", "x="}
	tokens := strings.Split("'|\"|`|$(|)|\\|\n|\n| # |#|<<EOF|<<'EOF'|<<-EOF|EOF|\nEOF\n|\n\tEOF\n|touch pwned|touch pwned|;touch pwned|\ntouch pwned\n|ls|echo |cat | | |;|{ |; }|$'|((|))|[[ | ]]|"+
		"case x in | esac|x)|;;|&&|<<<|\t|! |~|=|$\"|${|}|x|a|:-|/|@|*|?|[|]|1|+|-|>|<|&|>&2|<(|if |then |fi|for x in |do |done|while |function |()|time |a[|]=|$((|$[|test |-v |printf |%s |read |x=|"+
		"\\\n| \\\n|${x:=|${x@P}|$x|\"$x\"|-eq |==|,|..|{a,b}|coproc |select |>& |/dev/null|\u00a0|\v|true|cd sub|sort |find . |-exec |sed -n |1p |a.txt|-o pwned|> pwned|'a[$(touch pwned)]'|alias ls=|eval |trap ", "|")
	leavesNoTrace(t, func(r *rand.Rand) string {
		var b strings.Builder
		b.WriteString(pick(r, starts))
		for k := 2 + r.Intn(8); k > 0; k-- {
			b.WriteString(pick(r, tokens))
		}
		return b.String()
	})
}

func TestHarmlessHereDocumentsLeaveNoTrace(t *testing.T) {
	heads := []string{"cat <<EOF", "cat <<'EOF'", `cat <<"EOF"`, `cat <<\EOF`, "cat <<-EOF", "cat <<-'EOF'", `cat <<E"O"F`, "cat <<EOF <<'EOF'", "cat <<'EOF' <<EOF2", "cat <<EOF | cat", "cat <<'EOF' # c",
		"(cat <<EOF)", "echo $(cat <<EOF", `echo "$(cat <<'EOF'`, "echo `cat <<EOF", "cat <<''", "cat <<$EOF", "cat <<E\\\nOF", "cat <<$'EOF'", "cat << 'E OF'", "cat <<EOF <(ls", "if cat <<EOF", "cat <<'EOF' \\", "cat <<EOF\\", "cat <<'E"}
	rows := []string{`x \`, "EOF", "EOF", "EOF", "\tEOF", "EOF ", `E\`, "OF", "touch pwned", "touch pwned", "touch pwned", "$(ls)", "`", "'", `"`, `EOF\`, "# c", `\EOF`, ")", "EOF)", "EOF`", `EOF")`, "EOF2", "", `\`, `\\`, "${x:-", "}", "ls", "then ls", "fi", "E OF", "F'", "<<EOF", "ls <<EOF", "$(cat <<EOF"}
	leavesNoTrace(t, func(r *rand.Rand) string {
		var b strings.Builder
		b.WriteString(pick(r, heads))
		for k := 2 + r.Intn(7); k > 0; k-- {
			b.WriteByte('\n')
			b.WriteString(pick(r, rows))
		}
		return b.String()
	})
}

// A word that is said to be known is what the shell gives to the command.
func TestKnownWordsAreWhatTheShellGives(t *testing.T) {
	p, dir := project(t)
	tokens := strings.Split(`'|"|\|$'|$"|a|b| |\n|$|#|!|~|/|=|{|}|,|..|*|?|[|]|(|)|\'|\"|\\|\$|\x41|\u4e2d|\101|\c|é|:|-|@|%|^|+|1|;|<|>|\e|\0|\x|''|""|$a|x`, "|")
	tokens = append(tokens, "\n", "\\\n", "\t", "`")
	campaign(t, func(r *rand.Rand) bool {
		var b strings.Builder
		for k := 1 + r.Intn(6); k > 0; k-- {
			b.WriteString(pick(r, tokens))
		}
		src := "printf '%s\\0' w " + b.String()
		l := p.read(src)
		if l.broken != "" || l.strange != "" || len(l.cmds) != 1 || len(l.files) > 0 || len(l.cmds[0].assigns) > 0 {
			return false
		}
		var want []string
		for _, w := range l.cmds[0].words[2:] {
			if !w.known {
				return false
			}
			want = append(want, w.text)
		}
		if got := strings.TrimSuffix(inShell(dir, src), "\x00"); got != strings.Join(want, "\x00") {
			t.Fatalf("%q: read as %q, the shell gives %q", src, want, strings.Split(got, "\x00"))
		}
		return true
	})
}

func tree(t *testing.T, dir string) string {
	t.Helper()
	var list []string
	_ = filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			b, _ := os.ReadFile(p)
			list = append(list, p+"="+string(b))
		}
		return nil
	})
	sort.Strings(list)
	return strings.Join(list, "\n")
}
