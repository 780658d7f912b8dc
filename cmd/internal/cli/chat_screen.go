package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	xterm "golang.org/x/term"

	"github.com/lingjiyidong/lj/cmd/internal/term"
	"github.com/lingjiyidong/lj/core"
)

// screenFace shows a chat on a terminal: what is done scrolls by and stays, the lower rows
// show what is being done and the line that is being typed. All of it belongs to one
// goroutine, that of run; the work talks to it through the inbox.
type screenFace struct {
	c   *talk
	f   *factory // with the real streams
	scr *term.Screen
	ed  term.Editor
	in  term.Keys

	mu     sync.Mutex
	inbox  []any // core.Event, *textRun, []term.Block, *question, func()
	steers []string
	wake   chan struct{}

	// Of run's goroutine.
	used     []core.Event // memories that this turn is given, not told yet
	print    []term.Block
	md       term.Markdown
	writing  bool // text of an answer is under way
	thinking bool
	thought  strings.Builder
	since    time.Time // when thinking began
	tools    []*toolRow
	queue    []string
	job      *job
	asking   *question
	draft    string // what was typed when a question came
	notice   string // one line that goes away with the next key
	lastStop time.Time
	leaving  bool
	tick     int
}

// textRun is text of an answer that came in pieces.
type textRun struct{ b strings.Builder }

type toolRow struct {
	id, name, args, progress string
	from                     time.Time
}

// job is work that runs beside the line that is being typed.
type job struct {
	from    time.Time
	done    chan error
	turn    bool
	stopped bool
}

type question struct {
	prompt string
	reply  chan string
}

// Frames are drawn at most so often; the signs of life move more slowly.
const (
	frameEvery = 33 * time.Millisecond
	tickEvery  = 120 * time.Millisecond
	// escPatience is how long the rest of a sequence may take.
	escPatience = 60 * time.Millisecond
	// twice is how soon the second Ctrl-C has to follow.
	twice = 2 * time.Second
	// maxThought is how much of a train of thought is kept for looking at, in bytes.
	maxThought = 256 << 10
)

var spinner = []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}

func newScreenFace(c *talk, f *factory) *screenFace {
	u := &screenFace{c: c, f: f, wake: make(chan struct{}, 1)}
	w, h := u.measure()
	u.scr = term.NewScreen(f.Out, term.Theme{Color: f.env("NO_COLOR") == ""}, w, h)
	u.ed.Complete = c.complete
	return u
}

// measure asks the terminal for its size.
func (u *screenFace) measure() (width, height int) {
	if file, ok := u.terminal(); ok {
		if w, h, err := xterm.GetSize(int(file.Fd())); err == nil && w > 0 && h > 0 {
			return w, h
		}
	}
	return 80, 24
}

func (u *screenFace) terminal() (*os.File, bool) {
	f, ok := u.f.In.(*os.File)
	return f, ok
}

func (u *screenFace) post(x any) {
	u.mu.Lock()
	u.inbox = append(u.inbox, x)
	u.mu.Unlock()
	u.poke()
}

func (u *screenFace) poke() {
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

func (u *screenFace) show(blocks ...term.Block) { u.post(blocks) }

func (u *screenFace) event(e core.Event) {
	if e.Type != core.EventText && e.Type != core.EventReasoning {
		u.post(e)
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if e.Type == core.EventText && len(u.inbox) > 0 {
		if t, ok := u.inbox[len(u.inbox)-1].(*textRun); ok {
			t.b.WriteString(e.Text)
			return
		}
	}
	if e.Type == core.EventText {
		t := &textRun{}
		t.b.WriteString(e.Text)
		u.inbox = append(u.inbox, t)
	} else {
		u.inbox = append(u.inbox, e)
	}
	u.poke()
}

func (u *screenFace) ask(ctx context.Context, prompt string) (string, error) {
	q := &question{prompt: prompt, reply: make(chan string, 1)}
	u.post(q)
	select {
	case a := <-q.reply:
		return a, nil
	case <-ctx.Done():
		u.post(func() {
			if u.asking == q {
				u.answered()
			}
		})
		return "", context.Cause(ctx)
	}
}

// steer gives what the running turn is to hear now.
func (u *screenFace) steer() []string {
	u.mu.Lock()
	list := u.steers
	u.steers = nil
	u.mu.Unlock()
	for _, s := range list {
		u.show(said(s)...)
	}
	return list
}

// spill prints what was shown before run began, for a chat that does not come about.
func (u *screenFace) spill() {
	u.receive()
	for _, b := range u.print {
		for _, r := range b.Rows(term.Theme{}, u.scr.Width()) {
			fmt.Fprintln(u.f.Err, r)
		}
	}
}

// run talks until the person leaves.
func (u *screenFace) run(ctx context.Context) (err error) {
	file, ok := u.terminal()
	if !ok {
		return core.Errorf(core.KindInternal, "the terminal is no file")
	}
	fd := int(file.Fd())
	old, err := xterm.MakeRaw(fd)
	if err != nil {
		return core.Errorf(core.KindFailed, "set up the terminal: %w", err)
	}
	const begin, end = "\x1b[?2004h", "\x1b[?2004l"
	fmt.Fprint(u.f.Out, begin)
	restore := func() {
		_ = u.scr.Leave()
		fmt.Fprint(u.f.Out, end)
		_ = xterm.Restore(fd, old)
	}
	defer restore()

	for _, s := range u.c.loadHistory() {
		u.ed.Remember(s)
	}
	keys := make(chan []byte)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		defer close(keys)
		for {
			buf := make([]byte, 4096)
			n, err := file.Read(buf)
			if n > 0 {
				select {
				case keys <- buf[:n]:
				case <-stop:
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGWINCH, syscall.SIGCONT)
	defer signal.Stop(signals)

	var last time.Time // of the last frame
	frame := time.NewTimer(0)
	defer frame.Stop()
	esc := time.NewTimer(time.Hour)
	esc.Stop()
	redraw := false
	for {
		u.receive()
		if u.job == nil && !u.leaving {
			u.next(ctx)
		}
		if u.leaving && u.job == nil {
			u.draw(redraw) // what was said last
			return leaveError(ctx, nil)
		}
		wait := time.Until(last.Add(frameEvery))
		if wait <= 0 {
			if err := u.draw(redraw); err != nil {
				return core.Errorf(core.KindFailed, "write to the terminal: %w", err)
			}
			redraw, last = false, time.Now()
			if u.job != nil {
				frame.Reset(tickEvery)
			}
		} else {
			frame.Reset(wait)
		}
		var done chan error
		if u.job != nil {
			done = u.job.done
		}
		select {
		case b, ok := <-keys:
			if !ok { // the terminal is gone
				u.leaving = true
				keys = nil
				u.stop()
				continue
			}
			for _, k := range u.in.Feed(b) {
				redraw = u.key(ctx, k, fd, old) || redraw
			}
			if u.in.Pending() {
				esc.Reset(escPatience)
			}
			last = time.Time{} // typing is seen at once
		case <-esc.C:
			for _, k := range u.in.Flush() {
				redraw = u.key(ctx, k, fd, old) || redraw
			}
		case <-u.wake:
		case <-frame.C:
			u.tick++
		case err := <-done:
			u.finished(err)
		case s := <-signals:
			if s == syscall.SIGCONT {
				if _, err := xterm.MakeRaw(fd); err != nil {
					return core.Errorf(core.KindFailed, "set up the terminal: %w", err)
				}
				fmt.Fprint(u.f.Out, begin)
			}
			u.scr.SetSize(u.measure())
			redraw = true
		case <-ctx.Done():
			u.leaving = true
			u.stop()
			if u.job != nil {
				select {
				case err := <-u.job.done:
					u.finished(err)
				case <-time.After(5 * time.Second):
					return leaveError(ctx, nil)
				}
			}
		}
	}
}

// receive takes what the work has said.
func (u *screenFace) receive() {
	u.mu.Lock()
	list := u.inbox
	u.inbox = nil
	u.mu.Unlock()
	for _, x := range list {
		switch x := x.(type) {
		case *textRun:
			u.tellUsed()
			u.thoughtOver()
			u.writing = true
			u.print = append(u.print, u.md.Write(x.b.String())...)
		case core.Event:
			u.happened(x)
		case []term.Block:
			u.textOver()
			u.print = append(u.print, x...)
		case *question:
			u.textOver()
			u.asking = x
			if u.draft == "" {
				u.draft = u.ed.Take()
			}
		case func():
			x()
		}
	}
}

func (u *screenFace) textOver() {
	if u.writing {
		u.print = append(u.print, u.md.Close()...)
		u.writing = false
	}
}

func (u *screenFace) thoughtOver() {
	if u.thinking {
		u.thinking = false
		u.print = append(u.print, term.Text{Style: term.Dim, Text: u.f.p.T("thought for %s (Ctrl-O shows it)", span(time.Since(u.since)))})
	}
}

// span is a time that something took.
func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}

// tellUsed says on one line which memories the turn is given.
func (u *screenFace) tellUsed() {
	if len(u.used) > 0 {
		u.textOver()
		u.print = append(u.print, term.Text{Style: term.Dim, Text: "lj: " + usedText(u.f, u.used)})
	}
	u.used = nil
}

func (u *screenFace) happened(e core.Event) {
	line := func(style term.Style, text string) {
		u.textOver()
		u.print = append(u.print, term.Text{Style: style, Text: text})
	}
	if e.Type == core.EventMemory && e.Action == "used" {
		u.used = append(u.used, e)
		return
	}
	u.tellUsed()
	switch e.Type {
	case core.EventReasoning:
		if !u.thinking {
			u.textOver()
			u.thinking, u.since = true, time.Now()
			u.thought.Reset()
		}
		if u.thought.Len() < maxThought {
			u.thought.WriteString(e.Text)
		}
		return
	case core.EventTextReset:
		u.md, u.writing = term.Markdown{}, false
		line(term.Dim, u.f.p.T("(the answer begins again)"))
	case core.EventToolStart:
		u.thoughtOver()
		u.textOver()
		u.tools = append(u.tools, &toolRow{id: e.ID, name: e.Name, args: shortArgs(e.Args, 200), from: time.Now()})
	case core.EventToolProgress:
		for _, t := range u.tools {
			if t.id == e.ID {
				t.progress = u.f.p.Tell(lastLine(e.Text))
			}
		}
	case core.EventToolEnd:
		row := &toolRow{id: e.ID, name: e.Name}
		for i, t := range u.tools {
			if t.id == e.ID {
				row = t
				u.tools = append(u.tools[:i], u.tools[i+1:]...)
				break
			}
		}
		u.textOver()
		u.print = append(u.print, toolEnd(e, row.args))
	case core.EventPlan:
		u.textOver()
		u.print = append(u.print, planSteps(e.Data)...)
	case core.EventStep:
		line(term.Dim, fmt.Sprintf("  %s: %s", e.ID, e.Status))
	case core.EventNotice:
		line(0, "lj: "+u.f.p.Tell(e.Text))
	case core.EventCompact:
		line(term.Dim, "lj: "+u.f.p.T("the conversation goes on from a digest of its earlier turns"))
	case core.EventMemory:
		line(term.Dim, "lj: "+u.f.p.T("memory %s: %s", u.f.did(e.Action), term.Cut(oneLine(e.Content), 100)))
	}
	if e.Type != core.EventUsage {
		u.thoughtOver()
	}
}

// planSteps shows the steps of a plan.
func planSteps(data json.RawMessage) []term.Block {
	var p struct {
		Steps []struct {
			ID        string   `json:"id"`
			Desc      string   `json:"desc"`
			DependsOn []string `json:"depends_on"`
		} `json:"steps"`
	}
	if json.Unmarshal(data, &p) != nil {
		return nil
	}
	var out []term.Block
	for _, s := range p.Steps {
		after := ""
		if len(s.DependsOn) > 0 {
			after = " ← " + strings.Join(s.DependsOn, ", ")
		}
		out = append(out, term.Spans{Indent: "    ", List: []term.Span{{Text: "  " + s.ID + " ", Style: term.Bold}, {Text: s.Desc}, {Text: after, Style: term.Dim}}})
	}
	return out
}

// toolEnd is the line that stays of a call.
func toolEnd(e core.Event, args string) term.Block {
	var ms int64
	if e.MS != nil {
		ms = *e.MS
	}
	style := term.Green
	if e.Status != core.CallOK {
		style = term.Red
	}
	return term.Spans{Indent: "  ", List: []term.Span{
		{Text: marks[e.Status] + " ", Style: style}, {Text: e.Name, Style: term.Bold},
		{Text: " " + term.Cut(args, 100)}, {Text: " (" + span(time.Duration(ms)*time.Millisecond) + ")", Style: term.Dim},
	}}
}

func lastLine(s string) string {
	s = strings.TrimRight(s, "\r\n ")
	return s[strings.LastIndexAny(s, "\r\n")+1:]
}

// draw brings the terminal up to date.
func (u *screenFace) draw(whole bool) error {
	width := u.scr.Width()
	live, caret, prefix := u.live(width)
	if whole {
		if err := u.scr.Frame(u.print, nil, 0, ""); err != nil {
			return err
		}
		u.print = nil
		return u.scr.Redraw(live, caret, prefix)
	}
	err := u.scr.Frame(u.print, live, caret, prefix)
	u.print = nil
	return err
}

// live are the rows that are drawn again and again.
func (u *screenFace) live(width int) (rows []string, caret int, prefix string) {
	t := u.scr.Theme()
	dim := func(s string) { rows = append(rows, t.Paint(term.Dim, term.Cut(term.Clean(s), width))) }
	if open := u.md.Open(); open != nil && u.writing {
		rows = append(rows, open.Rows(t, width)...)
	}
	sign := spinner[u.tick%len(spinner)]
	if u.thinking {
		last := strings.TrimSpace(lastLine(tail(u.thought.String(), 400)))
		dim(sign + " " + u.f.p.T("thinking %s", span(time.Since(u.since))) + " " + last)
	}
	for _, r := range u.tools {
		took := " " + span(time.Since(r.from).Truncate(100*time.Millisecond))
		head := sign + " " + term.Cut(r.name, width-2)
		rows = append(rows, t.Paint(term.Cyan, sign)+" "+t.Paint(term.Bold, term.Cut(r.name, width-2))+" "+
			term.Cut(term.Clean(oneLine(r.args)), max(0, width-term.Width(head)-term.Width(took)-1))+t.Paint(term.Dim, took))
		if r.progress != "" {
			dim("    " + r.progress)
		}
	}
	if u.job != nil && u.asking == nil && len(u.tools) == 0 && !u.thinking && time.Since(u.job.from) > tickEvery {
		text := u.f.p.T("working %s · Ctrl-C stops", span(time.Since(u.job.from).Truncate(100*time.Millisecond)))
		if u.job.turn {
			text = u.f.p.T("working %s · Enter queues, Alt-Enter steers, Ctrl-C stops", span(time.Since(u.job.from).Truncate(100*time.Millisecond)))
		}
		if u.job.stopped {
			text = u.f.p.T("stopping …")
		}
		dim(sign + " " + text)
	}
	u.mu.Lock()
	steers := append([]string(nil), u.steers...)
	u.mu.Unlock()
	for _, s := range steers {
		dim(u.f.p.T("steering: %s", oneLine(s)))
	}
	for i, s := range u.queue {
		if i == 5 && len(u.queue) > 6 {
			dim(u.f.p.T("and %d more", len(u.queue)-i))
			break
		}
		dim(u.f.p.T("queued: %s", oneLine(s)))
	}
	if u.notice != "" {
		dim(u.notice)
	}
	mark := "› "
	if u.asking != nil {
		ask := t.Wrap([]term.Span{{Text: u.asking.prompt, Style: term.Bold}}, width)
		rows = append(rows, ask...)
		mark = "? "
	}
	high := max(1, min(u.scr.Height()/2, u.scr.Height()-3))
	ed, at, prefix := u.ed.View(t, mark, width, high)
	caret = len(rows) + at
	return append(rows, ed...), caret, prefix
}

func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[len(s)-n:], "")
}

// key takes a key. It returns true when the whole screen has to be drawn again.
func (u *screenFace) key(ctx context.Context, k term.Key, fd int, old *xterm.State) (redraw bool) {
	u.notice = ""
	if k.Code == term.KeyUp && u.ed.Empty() && len(u.queue) > 0 && u.asking == nil {
		// The newest message that waits comes back to be changed.
		n := len(u.queue) - 1
		u.ed.Set(u.queue[n])
		u.queue = u.queue[:n]
		return false
	}
	switch u.ed.Handle(k) {
	case term.Submit:
		u.submit(false)
	case term.AltSubmit:
		u.submit(true)
	case term.Interrupt:
		u.interrupted()
	case term.EOF:
		if u.job == nil {
			u.leaving = true
		} else {
			u.notice = u.f.p.T("Ctrl-C stops what is running")
		}
	case term.Redraw:
		return true
	case term.Reveal:
		if s := strings.TrimSpace(u.thought.String()); s != "" {
			u.print = append(u.print, term.Text{Style: term.Dim, Text: s, Indent: "  "})
		} else {
			u.notice = u.f.p.T("the model has not shown its thoughts")
		}
	case term.Suspend:
		_ = u.scr.Leave()
		fmt.Fprint(u.f.Out, "\x1b[?2004l")
		_ = xterm.Restore(fd, old)
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) // SIGCONT sets the terminal up again
	}
	return false
}

// submit takes the typed text: an answer, a message for now, or one for later.
func (u *screenFace) submit(alt bool) {
	if u.asking != nil {
		q := u.asking
		text := u.ed.Take()
		u.print = append(u.print, term.Spans{List: []term.Span{{Text: q.prompt}, {Text: text, Style: term.Bold}}, Indent: "  "})
		u.answered()
		q.reply <- text
		return
	}
	if alt && (u.job == nil || !u.job.turn) {
		u.ed.Handle(term.Key{Code: term.KeyShiftEnter}) // nothing to steer: a further line
		return
	}
	text := strings.TrimSpace(u.ed.Take())
	if text == "" {
		return
	}
	u.ed.Remember(text)
	u.lastStop = time.Time{} // a Ctrl-C from before no longer counts
	if alt && !isCommand(text) {
		u.mu.Lock()
		u.steers = append(u.steers, text)
		u.mu.Unlock()
		return
	}
	u.queue = append(u.queue, text)
}

// answered puts what was being typed back.
func (u *screenFace) answered() {
	typed := u.ed.Take()
	u.asking = nil
	u.ed.Set(join(u.draft, typed))
	u.draft = ""
}

func join(list ...string) string {
	var out []string
	for _, s := range list {
		if strings.TrimSpace(s) != "" {
			out = append(out, s)
		}
	}
	return strings.Join(out, "\n")
}

func (u *screenFace) stop() {
	if u.job != nil {
		u.job.stopped = true
		u.c.interrupt()
	}
}

// interrupted is Ctrl-C: it stops the work, else clears the line, else leaves when it
// comes twice.
func (u *screenFace) interrupted() {
	again := time.Since(u.lastStop) < twice
	u.lastStop = time.Now()
	switch {
	case u.job != nil && again && u.job.stopped:
		u.leaving = true
	case u.job != nil:
		u.stop()
	case !u.ed.Empty():
		u.ed.Remember(u.ed.Take()) // it can be had back with the arrow
		u.notice = u.f.p.T("Ctrl-C again leaves")
	case again:
		u.leaving = true
	default:
		u.notice = u.f.p.T("Ctrl-C again leaves")
	}
}

// next begins what waits.
func (u *screenFace) next(ctx context.Context) {
	if len(u.queue) == 0 {
		return
	}
	text := u.queue[0]
	u.queue = u.queue[1:]
	u.textOver()
	u.print = append(u.print, said(text)...)
	j := &job{from: time.Now(), done: make(chan error, 1), turn: !isCommand(text)}
	u.job = j
	go func() {
		j.done <- u.c.work(ctx, func(ctx context.Context) error {
			u.c.keepHistory(text)
			if j.turn {
				return u.c.turn(ctx, text, u.steer)
			}
			leave, err := u.c.command(ctx, text, u.steer)
			if leave {
				u.post(func() { u.leaving = true })
			}
			return err
		})
	}()
}

// finished ends a job. What was to follow it is only done when it went well; otherwise it
// comes back to the line, so that nothing typed is lost.
func (u *screenFace) finished(err error) {
	u.receive()
	u.thoughtOver()
	u.textOver()
	j := u.job
	u.job, u.tools = nil, nil
	u.mu.Lock()
	steers := u.steers
	u.steers = nil
	u.mu.Unlock()
	u.queue = append(steers, u.queue...)
	if err != nil {
		u.print = append(u.print, u.c.failed(err)...)
		u.print = append(u.print, term.Text{})
	}
	if (err != nil && j.turn || j.stopped) && len(u.queue) > 0 {
		u.ed.Set(join(append(u.queue, u.ed.Text())...))
		u.queue = nil
	}
}
