package cli

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/lingjiyidong/lj/cmd/internal/term"
	"github.com/lingjiyidong/lj/core"
)

// plainFace shows a chat on a terminal that can do nothing but print lines. Lines that are
// typed while it works are its next messages.
type plainFace struct {
	c     *talk
	f     *factory
	lines chan string

	mu     sync.Mutex
	column bool // something stands in the present line
	quiet  bool // thinking was told
	args   map[string]string
	last   time.Time
	used   []core.Event // memories that this turn is given, not told yet
}

func newPlainFace(c *talk, f *factory) *plainFace {
	return &plainFace{c: c, f: f, lines: make(chan string, 256), args: map[string]string{}}
}

// plainWidth is how long the rows of blocks are: the terminal breaks longer ones.
const plainWidth = 1000

func (p *plainFace) show(blocks ...term.Block) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range blocks {
		for _, r := range b.Rows(term.Theme{}, plainWidth) {
			p.row(r)
		}
	}
}

func (p *plainFace) row(text string) {
	if p.column {
		fmt.Fprintln(p.f.Out)
		p.column = false
	}
	fmt.Fprintln(p.f.Out, text)
}

func (p *plainFace) event(e core.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.Type == core.EventMemory && e.Action == "used" {
		p.used = append(p.used, e)
		return
	}
	if len(p.used) > 0 {
		p.row("lj: " + usedText(p.f, p.used))
		p.used = nil
	}
	switch e.Type {
	case core.EventReasoning:
		if !p.quiet {
			p.quiet = true
			p.row(p.f.p.T("(thinking)"))
		}
		return
	case core.EventText:
		text := term.Clean(e.Text)
		fmt.Fprint(p.f.Out, text)
		p.column = !strings.HasSuffix(text, "\n")
	case core.EventTextReset:
		p.row(p.f.p.T("(the answer begins again)"))
	case core.EventToolStart:
		p.args[e.ID] = shortArgs(e.Args, 70)
	case core.EventToolEnd:
		for _, r := range toolEnd(e, p.args[e.ID]).Rows(term.Theme{}, plainWidth) {
			p.row(r)
		}
		delete(p.args, e.ID)
	case core.EventPlan:
		for _, b := range planSteps(e.Data) {
			for _, r := range b.Rows(term.Theme{}, plainWidth) {
				p.row(r)
			}
		}
	case core.EventStep:
		p.row(fmt.Sprintf("  %s: %s", e.ID, e.Status))
	case core.EventNotice:
		p.row("lj: " + term.Clean(p.f.p.Tell(e.Text)))
	case core.EventCompact:
		p.row("lj: " + p.f.p.T("the conversation goes on from a digest of its earlier turns"))
	case core.EventMemory:
		p.row("lj: " + p.f.p.T("memory %s: %s", p.f.did(e.Action), term.Cut(term.Clean(oneLine(e.Content)), 100)))
	}
	p.quiet = false
}

func (p *plainFace) spill() {}

func (p *plainFace) ask(ctx context.Context, prompt string) (string, error) {
	p.prompt(prompt)
	select {
	case l, ok := <-p.lines:
		if !ok {
			return "", core.Errorf(core.KindInterrupted, "the terminal is gone")
		}
		return l, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func (p *plainFace) prompt(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.column {
		fmt.Fprintln(p.f.Out)
		p.column = false
	}
	fmt.Fprint(p.f.Out, text)
}

func (p *plainFace) run(ctx context.Context) error {
	go func() {
		defer close(p.lines)
		sc := bufio.NewScanner(p.f.In)
		sc.Buffer(make([]byte, 64<<10), maxStdin)
		for sc.Scan() {
			p.lines <- sc.Text()
		}
	}()
	idle := make(chan struct{}, 1)
	if p.f.OnInterrupt != nil {
		p.f.OnInterrupt(func() bool {
			if p.c.interrupt() {
				return true
			}
			select {
			case idle <- struct{}{}:
			default:
			}
			return true
		})
	}
	for {
		p.prompt("> ")
		text, ok := "", false
		for more := true; more; {
			select {
			case text2, open := <-p.lines:
				if !open {
					return leaveError(ctx, nil)
				}
				ok = true
				more = strings.HasSuffix(text2, `\`)
				text += strings.TrimSuffix(text2, `\`)
				if more {
					text += "\n"
					p.prompt("  ")
				}
			case <-idle:
				if time.Since(p.last) < twice {
					return leaveError(ctx, nil)
				}
				p.last = time.Now()
				p.show(term.Text{Text: ""}, term.Text{Text: p.f.p.T("Ctrl-C again leaves")})
				text, more = "", false
			case <-ctx.Done():
				return leaveError(ctx, nil)
			}
		}
		if text = strings.TrimSpace(text); text == "" || !ok {
			continue
		}
		p.last = time.Time{}
		leave := false
		err := p.c.work(ctx, func(ctx context.Context) (err error) {
			p.c.keepHistory(text)
			if isCommand(text) {
				leave, err = p.c.command(ctx, text, nil)
				return err
			}
			return p.c.turn(ctx, text, nil)
		})
		if err != nil {
			p.show(p.c.failed(err)...)
		}
		if leave {
			return leaveError(ctx, nil)
		}
	}
}
