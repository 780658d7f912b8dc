package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-runewidth"
	"github.com/reeflective/readline"

	"github.com/lingjiyidong/lj/cmd/internal/app"
	"github.com/lingjiyidong/lj/core"
)

// slash are the commands of the chat, with what they do.
var slash = []struct{ name, does string }{
	{"/help", "show these commands"},
	{"/tools", "list the tools"},
	{"/prompts", "list the versions of the system prompt"},
	{"/model", "show or change the model: /model NAME"},
	{"/mode", "show or change the mode: /mode ask|auto|plan"},
	{"/role", "show or change the role: /role review"},
	{"/sessions", "list the conversations of this project"},
	{"/resume", "go on with another conversation: /resume ID"},
	{"/history", "show this conversation"},
	{"/compact", "make room: go on from a digest of the earlier turns"},
	{"/cost", "show what this conversation has cost"},
	{"/undo", "undo the file changes of the last turn"},
	{"/title", "name this conversation: /title TEXT"},
	{"/clear", "begin a new conversation"},
	{"/exit", "leave"},
}

// talk is a running chat.
type talk struct {
	f    *factory
	a    *app.App
	o    app.TurnOptions
	conv *app.Conversation
	sh   *readline.Shell

	mu     sync.Mutex
	cancel context.CancelFunc // of the running turn
}

// chat talks with a person on the terminal until he leaves.
func chat(ctx context.Context, f *factory, t *turnFlags, o app.TurnOptions) error {
	if o.Mode != "" {
		f.flags["mode"] = o.Mode
	}
	a, err := f.open(ctx, t.cwd)
	if err != nil {
		return err
	}
	defer a.Close()
	c := &talk{f: f, a: a, o: o}
	if c.conv, err = a.Conversation(ctx, o); err != nil {
		return err
	}
	c.o.Ask = asker{c}
	c.shell()
	if f.OnInterrupt != nil {
		f.OnInterrupt(c.interrupt)
		defer f.OnInterrupt(nil)
	}
	fmt.Fprintf(f.Out, "lj %s · %s · %s · %s\n%s\n", f.Version, a.Project, c.conv.Session.Model, c.mode(), f.p.T("/help lists the commands; Ctrl-C stops a turn, twice leaves"))
	last := time.Time{}
	for ctx.Err() == nil {
		line, err := c.sh.Readline()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, readline.ErrInterrupt) || err != nil && err.Error() == os.Interrupt.String():
			if time.Since(last) < 2*time.Second {
				return nil
			}
			last = time.Now()
			fmt.Fprintln(f.Err, f.p.T("Ctrl-C again leaves"))
			continue
		case err != nil:
			return core.Errorf(core.KindFailed, "read the terminal: %w", err)
		}
		line = strings.TrimSpace(strings.ReplaceAll(line, "\\\n", "\n"))
		if line == "" {
			continue
		}
		if strings.HasPrefix(line, "/") && !strings.Contains(strings.Fields(line)[0][1:], "/") {
			leave, err := c.command(ctx, line)
			if err != nil {
				f.printError(err)
			}
			if leave {
				return nil
			}
			continue
		}
		c.turn(ctx, line)
	}
	return core.Errorf(core.KindInterrupted, "interrupted")
}

func (c *talk) mode() string {
	if c.o.Mode != "" {
		return c.o.Mode
	}
	return c.a.Config.String("mode")
}

// interrupt stops a running turn; without one it is not ours.
func (c *talk) interrupt() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel == nil {
		return false
	}
	c.cancel()
	return true
}

// shell makes the line editor.
func (c *talk) shell() {
	c.sh = readline.NewShell()
	c.sh.Prompt.Primary(func() string { return "› " })
	c.sh.Prompt.Secondary(func() string { return "  " })
	c.sh.AcceptMultiline = func(line []rune) bool { return len(line) == 0 || line[len(line)-1] != '\\' }
	c.sh.Completer = func(line []rune, cursor int) readline.Completions {
		word := string(line[:cursor])
		word = word[strings.LastIndexAny(word, " \n")+1:]
		switch {
		case strings.HasPrefix(word, "/") && word == string(line[:cursor]):
			var list []string
			for _, s := range slash {
				list = append(list, s.name, c.f.p.T(s.does))
			}
			return readline.CompleteValuesDescribed(list...)
		case strings.HasPrefix(word, "@"):
			return readline.CompleteValues(c.paths(word[1:])...).NoSpace('/')
		}
		return readline.Completions{}
	}
	c.sh.History.AddFromFile("lj", filepath.Join(c.a.Home, "cache", "chat_history"))
}

// paths completes a path of the project.
func (c *talk) paths(prefix string) []string {
	dir, base := filepath.Split(prefix)
	full := filepath.Join(c.a.Project, dir)
	if rel, err := filepath.Rel(c.a.Project, full); err != nil || strings.HasPrefix(rel, "..") {
		return nil
	}
	entries, err := os.ReadDir(full)
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), base) || e.Name() == ".git" {
			continue
		}
		name := "@" + dir + e.Name()
		if e.IsDir() {
			name += "/"
		}
		if out = append(out, name); len(out) == 200 {
			break
		}
	}
	sort.Strings(out)
	return out
}

// turn runs one turn and shows it as it happens.
func (c *talk) turn(ctx context.Context, prompt string) {
	ctx, cancel := context.WithCancel(ctx)
	c.mu.Lock()
	c.cancel = cancel
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.cancel = nil
		c.mu.Unlock()
		cancel()
	}()
	o := c.o
	o.Prompt = prompt
	args := map[string]string{}
	column := 0 // whether something stands in the current line
	line := func(format string, a ...any) {
		if column > 0 {
			fmt.Fprintln(c.f.Out)
			column = 0
		}
		fmt.Fprintf(c.f.Out, format+"\n", a...)
	}
	thinking := false
	o.Events = func(e core.Event) {
		switch e.Type {
		case core.EventReasoning:
			if !thinking {
				thinking = true
				line("%s", c.f.p.T("(thinking)"))
			}
		case core.EventText:
			thinking = false
			fmt.Fprint(c.f.Out, e.Text)
			column = 1
			if strings.HasSuffix(e.Text, "\n") {
				column = 0
			}
		case core.EventTextReset:
			line("%s", c.f.p.T("(the answer begins again)"))
		case core.EventToolStart:
			args[e.ID] = shortArgs(e.Args, 70)
		case core.EventToolEnd:
			var ms int64
			if e.MS != nil {
				ms = *e.MS
			}
			line("  %s %s %s (%d ms)", marks[e.Status], e.Name, args[e.ID], ms)
			delete(args, e.ID)
		case core.EventStep:
			line("  %s: %s", e.ID, e.Status)
		case core.EventNotice:
			line("lj: %s", e.Text)
		case core.EventCompact:
			line("lj: %s", c.f.p.T("the conversation goes on from a digest of its earlier turns"))
		case core.EventMemory:
			line("lj: %s", c.f.p.T("memory %s: %s", e.Action, runewidth.Truncate(oneLine(e.Content), 100, "…")))
		}
	}
	res := c.conv.Turn(ctx, o)
	if column > 0 {
		fmt.Fprintln(c.f.Out)
	}
	if res.Err != nil {
		c.f.printError(res.Err)
	}
	u := res.Usage
	if u.Requests > 0 {
		cached := 0
		if u.PromptTokens > 0 {
			cached = 100 * u.CachedTokens / u.PromptTokens
		}
		fmt.Fprintln(c.f.Err, c.f.p.T("%d requests, %d tokens, %d%% of the prompt cached, %d%% of the window used", u.Requests, u.Total(), cached, c.conv.WindowShare()))
	}
}

// command runs one slash command. leave is true when the person leaves.
func (c *talk) command(ctx context.Context, line string) (leave bool, err error) {
	name, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	out := c.f.Out
	switch name {
	case "/help":
		for _, s := range slash {
			fmt.Fprintf(out, "%-10s %s\n", s.name, c.f.p.T(s.does))
		}
	case "/exit", "/quit":
		return true, nil
	case "/tools":
		list, err := c.a.ToolList(ctx)
		if err != nil {
			return false, err
		}
		for _, t := range list {
			fmt.Fprintf(out, "%-22s %-9s %-8s %s\n", t.Name, t.Version, t.State, runewidth.Truncate(oneLine(t.Description), 60, "…"))
		}
	case "/prompts":
		list, err := c.a.Prompts(ctx)
		if err != nil {
			return false, err
		}
		for _, p := range list {
			mark := " "
			if p.Active {
				mark = "*"
			}
			fmt.Fprintf(out, "%s %3d %s\n", mark, p.Version, oneLine(p.Reason))
		}
	case "/model":
		if rest != "" {
			c.o.Model = rest
		}
		if c.o.Model == "" {
			c.o.Model = c.conv.Session.Model
		}
		fmt.Fprintln(out, c.o.Model)
	case "/mode":
		switch rest {
		case "ask", "auto", "plan":
			c.o.Mode = rest
		case "":
		default:
			return false, core.Errorf(core.KindUsage, "the mode is ask, auto or plan, not %q", rest)
		}
		fmt.Fprintln(out, c.mode())
	case "/role":
		if rest != "" {
			if err := app.CheckRole(rest); err != nil {
				return false, err
			}
			c.o.Role = rest
		}
		fmt.Fprintln(out, c.o.Role)
	case "/sessions":
		list, err := c.a.Sessions(ctx, false, 30)
		if err != nil {
			return false, err
		}
		for _, s := range list {
			fmt.Fprintf(out, "%s  %s  %3d  %s\n", s.ID, s.UpdatedAt.Local().Format("2006-01-02 15:04"), s.Turns, runewidth.Truncate(oneLine(s.Title), 60, "…"))
		}
	case "/resume":
		o := c.o
		o.Session, o.Continue = rest, rest == ""
		conv, err := c.a.Conversation(ctx, o)
		if err != nil {
			return false, err
		}
		c.conv = conv
		fmt.Fprintln(out, conv.Session.ID, oneLine(conv.Session.Title))
	case "/history":
		t, err := c.a.Transcript(ctx, c.conv.Session.ID)
		if err != nil {
			return false, err
		}
		return false, t.Markdown(out)
	case "/compact":
		before, after, err := c.conv.Compact(ctx)
		if err != nil {
			return false, err
		}
		fmt.Fprintln(out, c.f.p.T("about %d tokens before, %d after", before, after))
	case "/cost":
		list, err := c.a.Costs(ctx, c.conv.Session.ID)
		if err != nil {
			return false, err
		}
		for _, l := range list {
			money := ""
			if l.Money != nil {
				money = strconv.FormatFloat(*l.Money, 'f', 4, 64) + " " + l.Currency
			}
			fmt.Fprintf(out, "%-10s %-24s %4d %9d %9d %9d %s\n", l.Cause, l.Model, l.Requests, l.PromptTokens, l.CachedTokens, l.CompletionTokens, money)
		}
	case "/undo":
		res, err := c.a.Undo(ctx, "", false)
		if err != nil {
			return false, err
		}
		if res.Undone == nil {
			fmt.Fprintln(out, c.f.p.T("nothing to undo"))
			return false, nil
		}
		for what, list := range map[string][]string{"restored": res.Restored, "removed": res.Removed} {
			for _, p := range list {
				fmt.Fprintf(out, "%-9s %q\n", what, p)
			}
		}
		for _, k := range res.Kept {
			fmt.Fprintf(out, "kept      %q (%s)\n", k.Path, c.f.p.T(k.Reason))
		}
	case "/title":
		if rest == "" {
			fmt.Fprintln(out, c.conv.Session.Title)
			return false, nil
		}
		return false, c.conv.SetTitle(ctx, rest)
	case "/clear":
		o := c.o
		o.Session, o.Continue = "", false
		conv, err := c.a.Conversation(ctx, o)
		if err != nil {
			return false, err
		}
		c.conv = conv
	default:
		var names []string
		for _, s := range slash {
			names = append(names, s.name)
		}
		e := core.Errorf(core.KindUsage, "unknown command %q", name)
		if n := core.Nearest(name, names); n != "" {
			return false, e.Hint("did you mean %s?", n)
		}
		return false, e.Hint("/help lists the commands")
	}
	return false, nil
}

// asker puts questions to the person at the terminal, between the lines of a turn.
type asker struct{ c *talk }

func (q asker) Permit(ctx context.Context, p app.PermitQuestion) (string, error) {
	f := q.c.f
	fmt.Fprintf(f.Out, "\n%s %s\n", p.Tool, permitArgs(p.Args))
	if p.Diff != "" {
		fmt.Fprintln(f.Out, p.Diff)
	}
	if p.Reason != "" {
		fmt.Fprintf(f.Out, "  %s\n", p.Reason)
	}
	for {
		a, err := q.line(ctx, f.p.T("Allow it? y once, s for this session (%s), a always in this project, n no: ", p.Rule))
		if err != nil {
			return "", err
		}
		switch strings.ToLower(a) {
		case "y", "yes", "是":
			return "once", nil
		case "s":
			return "session", nil
		case "a":
			return "always", nil
		case "n", "no", "", "否":
			return "no", nil
		}
	}
}

// permitArgs is a call's arguments as a person has to see them: whole.
func permitArgs(raw json.RawMessage) string {
	var m map[string]any
	if json.Unmarshal(raw, &m) != nil {
		return string(raw)
	}
	if s, ok := m["command"].(string); ok && len(m) == 1 {
		return s
	}
	var b strings.Builder
	names := make([]string, 0, len(m))
	for k := range m {
		names = append(names, k)
	}
	sort.Strings(names)
	for _, k := range names {
		fmt.Fprintf(&b, "\n  %s: %v", k, m[k])
	}
	return b.String()
}

func (q asker) Question(ctx context.Context, question string, options []string) (string, error) {
	fmt.Fprintf(q.c.f.Out, "\n%s\n", question)
	for i, o := range options {
		fmt.Fprintf(q.c.f.Out, "  %d. %s\n", i+1, o)
	}
	a, err := q.line(ctx, "? ")
	if err != nil {
		return "", err
	}
	if n, err := strconv.Atoi(a); err == nil && n >= 1 && n <= len(options) {
		return options[n-1], nil
	}
	return a, nil
}

// line reads one line, byte by byte so that nothing typed ahead is lost.
func (q asker) line(ctx context.Context, prompt string) (string, error) {
	fmt.Fprint(q.c.f.Out, prompt)
	type got struct {
		text string
		err  error
	}
	ch := make(chan got, 1)
	go func() {
		var b []byte
		one := make([]byte, 1)
		for {
			n, err := q.c.f.In.Read(one)
			if n == 1 && one[0] == '\n' {
				ch <- got{strings.TrimSpace(string(b)), nil}
				return
			}
			if n == 1 {
				b = append(b, one[0])
			}
			if err != nil {
				ch <- got{strings.TrimSpace(string(b)), err}
				return
			}
		}
	}()
	select {
	case g := <-ch:
		return g.text, g.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
