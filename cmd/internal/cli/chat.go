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

	"github.com/lingjiyidong/lj/cmd/internal/app"
	"github.com/lingjiyidong/lj/cmd/internal/term"
	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/workspace"
)

// talk is a running chat: what is said with whom, whatever shows it.
type talk struct {
	f    *factory // prints through the face
	a    *app.App
	o    app.TurnOptions
	conv *app.Conversation
	face face

	asking chan struct{} // holds one while a question is open

	mu     sync.Mutex
	cancel context.CancelFunc // of the running work

	resting *resting // nil while it works
}

// face shows a chat. Its methods may be called from the goroutine of the work.
type face interface {
	// show prints blocks for good.
	show(blocks ...term.Block)
	event(core.Event)
	// ask puts a question that was shown and returns the line that answers it. prompt says
	// what may be answered.
	ask(ctx context.Context, prompt string) (string, error)
	// spill prints what was shown so far, where the chat does not come about.
	spill()
}

// chat talks with a person on the terminal until he leaves.
func chat(ctx context.Context, f *factory, t *turnFlags, o app.TurnOptions) error {
	if o.Mode != "" {
		f.flags["mode"] = o.Mode
	}
	if err := setup(ctx, f, t.cwd); err != nil {
		return err
	}
	c := &talk{o: o, asking: make(chan struct{}, 1)}
	g := *f
	c.f = &g
	out := &faceWriter{c: c}
	g.Out, g.Err = out, out
	g.approve = c.approve
	var run func(context.Context) error
	if f.env("TERM") == "dumb" || f.env("TERM") == "" {
		p := newPlainFace(c, f)
		c.face, run = p, p.run
	} else {
		u := newScreenFace(c, f)
		c.face, run = u, u.run
	}
	begun := false
	defer func() {
		if !begun {
			out.flush()
			c.face.spill()
		}
	}()
	a, err := g.open(ctx, t.cwd)
	if err != nil {
		return err
	}
	defer a.Close()
	defer c.rouse()
	c.a = a
	if c.o.Images, err = a.ReadImages(f.absAll(t.images)); err != nil {
		return err
	}
	if c.conv, err = a.Conversation(ctx, o); err != nil {
		return err
	}
	c.o.Ask = asker{c}
	c.face.show(c.banner(f)...)
	if o.Continue || o.Session != "" {
		c.recall(ctx)
	}
	c.o.Session, c.o.Continue = "", false
	if f.OnInterrupt != nil {
		f.OnInterrupt(c.interrupt)
		defer f.OnInterrupt(nil)
	}
	begun = true
	return run(ctx)
}

func (c *talk) banner(f *factory) []term.Block {
	return []term.Block{
		term.Spans{List: []term.Span{{Text: "lj " + f.Version, Style: term.Bold}, {Text: fmt.Sprintf(" · %s · %s · %s", c.a.Project, c.conv.Session.Model, c.mode()), Style: term.Dim}}},
		term.Text{Style: term.Dim, Text: c.f.p.T("/help lists the commands; Ctrl-C stops a turn, twice leaves")},
		term.Text{},
	}
}

func (c *talk) mode() string {
	if c.o.Mode != "" {
		return c.o.Mode
	}
	return c.a.Config.String("mode")
}

// work runs fn so that interrupt can stop it.
func (c *talk) work(ctx context.Context, fn func(context.Context) error) error {
	c.rouse()
	defer c.rest(ctx)
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
	return fn(ctx)
}

// interrupt stops the running work; without any it is not ours.
func (c *talk) interrupt() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel == nil {
		return false
	}
	c.cancel()
	return true
}

// isCommand says whether a line is a slash command and not, say, a path.
func isCommand(line string) bool {
	return strings.HasPrefix(line, "/") && len(line) > 1 && !strings.Contains(strings.Fields(line)[0][1:], "/")
}

// turn runs one turn and shows how it ended. steer gives what is to be heard on the way.
func (c *talk) turn(ctx context.Context, prompt string, steer func() []string) error {
	o := c.o
	o.Prompt = prompt
	o.Steer = steer
	images, err := c.images(prompt)
	if err != nil {
		return err
	}
	o.Images = append(o.Images, images...)
	c.o.Images = nil // those of --image belong to the first message
	o.Events = c.face.event
	res := c.conv.Turn(ctx, o)
	if line := c.usage(res.Usage); line != "" {
		defer c.face.show(term.Text{Style: term.Dim, Text: line}, term.Text{})
	}
	return res.Err
}

// usage is the line below a turn.
func (c *talk) usage(u core.Usage) string {
	if u.Requests == 0 {
		return ""
	}
	cached := 0
	if u.PromptTokens > 0 {
		cached = 100 * u.CachedTokens / u.PromptTokens
	}
	line := c.f.p.T("%d requests, %d tokens, %d%% of the prompt cached, %d%% of the window used", u.Requests, u.Total(), cached, c.conv.WindowShare())
	if u.Unreported > 0 {
		line += ", " + c.f.p.T("the server reported no usage for %d", u.Unreported)
	}
	if m, currency, ok := c.a.Price(u); ok {
		line += ", " + money(m) + " " + currency
	}
	return line
}

func money(m float64) string { return strconv.FormatFloat(m, 'f', 4, 64) }

// images are the pictures that a message names with @.
func (c *talk) images(prompt string) ([]core.Image, error) {
	var files []string
	for _, w := range strings.Fields(prompt) {
		if !strings.HasPrefix(w, "@") || len(w) < 2 || !app.IsImageName(w[1:]) {
			continue
		}
		path := w[1:]
		if !filepath.IsAbs(path) {
			path = filepath.Join(c.a.Project, path)
		}
		if _, err := os.Stat(path); err == nil {
			files = append(files, path)
		}
	}
	return c.a.ReadImages(files)
}

// recall shows the end of the conversation that is gone on with.
func (c *talk) recall(ctx context.Context) {
	t, err := c.a.Transcript(ctx, c.conv.Session.ID)
	if err != nil {
		return
	}
	from := 0
	for i, m := range t.Log {
		if m.Role == core.RoleUser && m.Note == "" {
			from = i
		}
	}
	c.face.show(term.Text{Style: term.Dim, Text: c.f.p.T("going on with %s: %s", c.conv.Session.ID, oneLine(t.Title))}, term.Text{})
	for _, m := range t.Log[from:] {
		switch m.Role {
		case core.RoleUser:
			c.face.show(said(m.Content)...)
		case core.RoleAssistant:
			c.face.show(markdown(m.Content)...)
			for _, k := range m.ToolCalls {
				c.face.show(term.Spans{List: []term.Span{{Text: "· "}, {Text: k.Name + " ", Style: term.Bold}, {Text: shortArgs(json.RawMessage(k.Arguments), 70), Style: term.Dim}}, Indent: "  "})
			}
		}
	}
	c.face.show(term.Text{})
}

// said is a message of the user as it stands above its answer.
func said(text string) []term.Block {
	var out []term.Block
	for i, l := range strings.Split(text, "\n") {
		mark := "  "
		if i == 0 {
			mark = "› "
		}
		out = append(out, term.Spans{List: []term.Span{{Text: mark + strings.ReplaceAll(l, "\t", "    "), Style: term.Bold}}, Indent: "  "})
	}
	return append(out, term.Text{})
}

func markdown(text string) []term.Block {
	var m term.Markdown
	return append(m.Write(text), m.Close()...)
}

// failed are the lines of an error.
func (c *talk) failed(err error) []term.Block {
	out := []term.Block{term.Text{Style: term.Red, Text: "lj: " + c.f.p.Tell(oneLine(err.Error()))}}
	if next := core.NextOf(err); next != "" {
		out = append(out, term.Text{Text: "  " + c.f.p.Tell(oneLine(next))})
	}
	return out
}

// faceWriter prints lines through the face.
type faceWriter struct {
	c  *talk
	mu sync.Mutex
	b  []byte
}

func (w *faceWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	w.b = append(w.b, p...)
	i := strings.LastIndexByte(string(w.b), '\n')
	var text string
	if i >= 0 {
		text = string(w.b[:i])
		w.b = append(w.b[:0], w.b[i+1:]...)
	}
	w.mu.Unlock()
	if i >= 0 {
		w.c.face.show(term.Text{Text: text})
	}
	return len(p), nil
}

// flush prints a last line that has no end.
func (w *faceWriter) flush() {
	w.mu.Lock()
	text := string(w.b)
	w.b = nil
	w.mu.Unlock()
	if text != "" {
		w.c.face.show(term.Text{Text: text})
	}
}

// paths completes a path of the project.
func (c *talk) paths(prefix string) []term.Candidate {
	dir, base := filepath.Split(prefix)
	full := filepath.Join(c.a.Project, dir)
	if rel, err := filepath.Rel(c.a.Project, full); err != nil || strings.HasPrefix(rel, "..") {
		return nil
	}
	entries, err := os.ReadDir(full)
	if err != nil {
		return nil
	}
	var out []term.Candidate
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), base) || e.Name() == ".git" || term.Clean(e.Name()) != e.Name() || strings.HasPrefix(e.Name(), ".") && base == "" {
			continue
		}
		name := "@" + dir + e.Name()
		if e.IsDir() {
			name += "/"
		}
		if out = append(out, term.Candidate{Text: name}); len(out) == 500 {
			break
		}
	}
	return out
}

// complete gives what may stand in place of the last word.
func (c *talk) complete(before string) (int, []term.Candidate) {
	start := strings.LastIndexAny(before, " \n") + 1
	word := before[start:]
	switch {
	case strings.HasPrefix(word, "/") && start == 0:
		var list []term.Candidate
		for _, s := range slash {
			if strings.HasPrefix(s.name, word) {
				list = append(list, term.Candidate{Text: s.name, Note: c.f.p.T(s.does)})
			}
		}
		return start, list
	case strings.HasPrefix(word, "@"):
		return start, c.paths(word[1:])
	}
	name, _, _ := strings.Cut(before, " ")
	for _, s := range slash {
		if s.name != name || s.args == nil {
			continue
		}
		var list []term.Candidate
		for _, a := range s.args {
			if strings.HasPrefix(a, word) {
				list = append(list, term.Candidate{Text: a})
			}
		}
		return start, list
	}
	return start, nil
}

// asker puts questions to the person at the terminal, between the lines of a turn.
type asker struct{ c *talk }

// turnToAsk waits until no other question is open: the steps of a plan ask side by side.
// done gives the turn on.
func (c *talk) turnToAsk(ctx context.Context) (done func(), err error) {
	select {
	case c.asking <- struct{}{}:
		return func() { <-c.asking }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (q asker) Permit(ctx context.Context, p app.PermitQuestion) (string, error) {
	f := q.c.f
	done, err := q.c.turnToAsk(ctx)
	if err != nil {
		return "", err
	}
	defer done()
	list := []term.Block{term.Text{}, term.Spans{List: []term.Span{{Text: p.Tool + " ", Style: term.Bold}, {Text: permitHead(p)}}}}
	if rest := permitArgs(p); rest != "" {
		list = append(list, term.Text{Text: rest, Indent: "  "})
	}
	more := false
	if p.Diff != "" {
		var short string
		if short, more = workspace.CutDiff(p.Diff, 200, diffLines); more {
			list = append(list, term.Diff(short), term.Text{Text: f.p.T("d shows the whole difference"), Style: term.Dim, Indent: "  "})
		} else {
			list = append(list, term.Diff(p.Diff))
		}
	}
	if p.Reason != "" {
		list = append(list, term.Text{Text: f.p.Tell(p.Reason), Style: term.Dim, Indent: "  "})
	}
	q.c.face.show(list...)
	for {
		a, err := q.c.face.ask(ctx, f.p.T("Allow it? y once, s for this session (%s), a always in this project, n no: ", p.Rule))
		if err != nil {
			return "", err
		}
		switch strings.ToLower(strings.TrimSpace(a)) {
		case "y", "yes", "是":
			return "once", nil
		case "s":
			return "session", nil
		case "a":
			return "always", nil
		case "n", "no", "否":
			return "no", nil
		case "d":
			if more {
				q.c.face.show(term.Diff(p.Diff))
				continue
			}
		}
		q.c.face.show(term.Text{Style: term.Dim, Text: f.p.T("answer y, s, a or n")})
	}
}

// diffLines is how many lines of a difference a question shows at first.
const diffLines = 40

// permitHead is what stands behind the tool's name: its command or its path.
func permitHead(p app.PermitQuestion) string {
	var m map[string]any
	if json.Unmarshal(p.Args, &m) != nil {
		return string(p.Args)
	}
	for _, k := range []string{"command", "path", "url", "query", "name"} {
		if s, ok := m[k].(string); ok {
			return s
		}
	}
	return ""
}

// permitArgs are the other arguments of a call as a person has to see them: whole, but for
// those that the difference shows.
func permitArgs(p app.PermitQuestion) string {
	var m map[string]any
	if json.Unmarshal(p.Args, &m) != nil {
		return ""
	}
	var lines []string
	head := false
	for _, k := range []string{"command", "path", "url", "query", "name"} {
		if _, ok := m[k].(string); ok && !head {
			head = true
			delete(m, k)
		}
	}
	if p.Diff != "" {
		for _, k := range []string{"content", "old", "new"} {
			delete(m, k)
		}
	}
	for k, v := range m {
		text, ok := v.(string)
		if !ok {
			b, err := json.Marshal(v)
			if err != nil {
				continue
			}
			text = string(b)
		}
		lines = append(lines, k+": "+text)
	}
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}

func (q asker) Question(ctx context.Context, question string, options []string) (string, error) {
	done, err := q.c.turnToAsk(ctx)
	if err != nil {
		return "", err
	}
	defer done()
	list := []term.Block{term.Text{}, term.Text{Text: question, Style: term.Bold}}
	for i, o := range options {
		list = append(list, term.Text{Text: fmt.Sprintf("%d. %s", i+1, o), Indent: "  "})
	}
	q.c.face.show(list...)
	prompt := q.c.f.p.T("Your answer: ")
	if len(options) > 0 {
		prompt = q.c.f.p.T("Your answer, or its number: ")
	}
	for {
		a, err := q.c.face.ask(ctx, prompt)
		if err != nil {
			return "", err
		}
		a = strings.TrimSpace(a)
		if n, err := strconv.Atoi(a); err == nil && n >= 1 && n <= len(options) {
			return options[n-1], nil
		}
		if a != "" {
			return a, nil
		}
	}
}

// approve answers a yes-or-no question of the app.
func (c *talk) approve(ctx context.Context, question string) (bool, error) {
	done, err := c.turnToAsk(ctx)
	if err != nil {
		return false, err
	}
	defer done()
	c.face.show(term.Text{}, term.Text{Text: c.f.p.Tell(question)})
	for {
		a, err := c.face.ask(ctx, c.f.p.T("Allow it? [y/N]")+" ")
		if err != nil {
			return false, err
		}
		switch strings.ToLower(strings.TrimSpace(a)) {
		case "y", "yes", "是":
			return true, nil
		case "", "n", "no", "否":
			return false, nil
		}
	}
}

// history is where what was typed is kept.
func (c *talk) historyFile() string { return filepath.Join(c.a.Home, "cache", "chat_history") }

// maxHistory is how many lines of it are kept.
const maxHistory = 2000

// loadHistory reads what was typed before, oldest first.
func (c *talk) loadHistory() []string {
	b, err := os.ReadFile(c.historyFile())
	if err != nil {
		return nil
	}
	var out []string
	for _, l := range strings.Split(string(b), "\n") {
		var s string
		if json.Unmarshal([]byte(l), &s) == nil && s != "" {
			out = append(out, s)
		}
	}
	if len(out) > 2*maxHistory { // now and then the file is made short again
		out = out[len(out)-maxHistory:]
		var text strings.Builder
		for _, s := range out {
			if line, err := json.Marshal(s); err == nil {
				text.Write(append(line, '\n'))
			}
		}
		tmp := c.historyFile() + ".new"
		if os.WriteFile(tmp, []byte(text.String()), 0o600) == nil {
			_ = os.Rename(tmp, c.historyFile()) // the long one is as good
		}
	}
	return out
}

// keepHistory adds one message. What holds a secret is not for a file, and a file that
// can't be written is no reason to disturb anyone.
func (c *talk) keepHistory(s string) {
	line, err := json.Marshal(s)
	if err != nil || len(line) > 64<<10 || c.a.HasSecret(s) {
		return
	}
	if os.MkdirAll(filepath.Dir(c.historyFile()), 0o700) != nil {
		return
	}
	f, err := os.OpenFile(c.historyFile(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	_, _ = f.Write(append(line, '\n'))
	_ = f.Close()
}

// leaveError is what a chat ends with: nothing where the person left.
func leaveError(ctx context.Context, err error) error {
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if ctx.Err() != nil {
		return core.Errorf(core.KindInterrupted, "interrupted")
	}
	return nil
}
