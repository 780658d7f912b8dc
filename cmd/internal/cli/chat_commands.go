package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lingjiyidong/lj/cmd/internal/app"
	"github.com/lingjiyidong/lj/cmd/internal/term"
	"github.com/lingjiyidong/lj/core"
)

// slash are the commands of the chat, with what they do and the words that complete them.
var slash = []struct {
	name, does string
	args       []string
}{
	{"/help", "show these commands", nil},
	{"/init", "write AGENTS.md: what an agent has to know of this repository", nil},
	{"/plan", "split a goal into steps and run them side by side: /plan GOAL", nil},
	{"/tools", "list the tools, or lj tools …: /tools show NAME", []string{"list", "show", "versions", "diff", "rollback", "disable", "enable", "test", "rm"}},
	{"/memory", "list what is remembered, or lj memory …: /memory search WORDS", []string{"list", "search", "add", "show", "rm", "pin", "unpin", "select", "maintain", "stats"}},
	{"/prompts", "list the versions of the system prompt, or lj prompts …", []string{"list", "show", "diff", "rollback"}},
	{"/model", "show or change the model: /model NAME", nil},
	{"/mode", "show or change the mode: /mode ask|auto|plan", []string{"ask", "auto", "plan"}},
	{"/role", "show or change the role: /role review", []string{"design", "develop", "test", "review", "docs", "devops"}},
	{"/sessions", "list the conversations of this project", []string{"list", "show", "search"}},
	{"/resume", "go on with another conversation: /resume ID", nil},
	{"/history", "show this conversation", nil},
	{"/compact", "make room: go on from a digest of the earlier turns", nil},
	{"/cost", "show what this conversation has cost", nil},
	{"/undo", "undo the file changes of the last turn", nil},
	{"/title", "name this conversation: /title TEXT", nil},
	{"/clear", "begin a new conversation", nil},
	{"/exit", "leave", nil},
}

// command runs one slash command. leave is true when the person leaves.
func (c *talk) command(ctx context.Context, line string, steer func() []string) (leave bool, err error) {
	name, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	say := func(format string, a ...any) { c.face.show(term.Text{Text: fmt.Sprintf(format, a...)}) }
	defer func() {
		if err == nil {
			c.face.show(term.Text{})
		}
	}()
	switch name {
	case "/help":
		for _, s := range slash {
			c.face.show(term.Spans{List: []term.Span{{Text: fmt.Sprintf("%-10s ", s.name), Style: term.Bold}, {Text: c.f.p.T(s.does)}}, Indent: "           "})
		}
		c.face.show(term.Text{Style: term.Dim, Text: c.f.p.T("\\ at the end of a line goes on in the next; @ completes a file, @picture.png shows one to the model; Ctrl-R searches what was typed")})
	case "/exit", "/quit":
		return true, nil
	case "/init":
		return false, c.init(ctx, steer)
	case "/plan":
		if rest == "" {
			return false, core.Errorf(core.KindUsage, "/plan needs a goal").Hint("/plan GOAL")
		}
		return false, c.turn(ctx, "Split this goal into steps, run them with the plan tool, and report how each ended. The goal: "+rest, steer)
	case "/tools":
		return false, c.sub(ctx, newTools, "list", rest)
	case "/memory":
		return false, c.sub(ctx, newMemory, "list", rest)
	case "/prompts":
		return false, c.sub(ctx, newPrompts, "list", rest)
	case "/sessions":
		return false, c.sub(ctx, newSessions, "list", rest)
	case "/undo":
		// What another conversation has changed in this project is not this one's to undo.
		if err := c.sub(ctx, newUndo, "", strings.TrimSpace(rest+" --session "+c.conv.Session.ID)); err != nil {
			return false, err
		}
		return false, nil
	case "/model":
		if rest != "" {
			c.o.Model = rest
		}
		if c.o.Model == "" {
			c.o.Model = c.conv.Session.Model
		}
		say("%s", c.o.Model)
	case "/mode":
		switch rest {
		case "ask", "auto", "plan":
			c.o.Mode = rest
		case "":
		default:
			return false, core.Errorf(core.KindUsage, "the mode is ask, auto or plan, not %q", rest)
		}
		say("%s", c.mode())
	case "/role":
		if rest != "" {
			if err := app.CheckRole(rest); err != nil {
				return false, err
			}
			c.o.Role = rest
		}
		say("%s", c.o.Role)
	case "/resume":
		o := c.o
		o.Session, o.Continue = rest, rest == ""
		conv, err := c.a.Conversation(ctx, o)
		if err != nil {
			return false, err
		}
		c.conv = conv
		c.recall(ctx)
	case "/history":
		t, err := c.a.Transcript(ctx, c.conv.Session.ID)
		if err != nil {
			return false, err
		}
		var b strings.Builder
		if err := t.Markdown(&b); err != nil {
			return false, err
		}
		c.face.show(markdown(b.String())...)
	case "/compact":
		before, after, err := c.conv.Compact(ctx)
		if err != nil {
			return false, err
		}
		if after < before {
			say("%s", c.f.p.T("about %d tokens before, %d after", before, after))
		} else {
			say("%s", c.f.p.T("about %d tokens; a digest would not be smaller, nothing is changed", before))
		}
		jobs, err := c.a.Jobs(ctx, c.conv.Session.ID)
		if err != nil {
			return false, err
		}
		c.jobs(jobs)
	case "/cost":
		return false, c.cost(ctx)
	case "/title":
		if rest == "" {
			say("%s", c.conv.Session.Title)
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
		say("%s", c.f.p.T("a new conversation"))
	default:
		var names []string
		for _, s := range slash {
			names = append(names, s.name)
		}
		e := core.Errorf(core.KindUsage, "unknown command %q", name)
		n := core.Nearest(name, names)
		for _, s := range names {
			if n == "" && strings.HasPrefix(s, name) {
				n = s
			}
		}
		if n != "" {
			return false, e.Hint("did you mean %s?", n)
		}
		return false, e.Hint("/help lists the commands")
	}
	return false, nil
}

// sub runs a command of the command line inside the chat. def is its default verb.
func (c *talk) sub(ctx context.Context, make func(*factory) *cobra.Command, def, rest string) error {
	args, err := words(rest)
	if err != nil {
		return err
	}
	if len(args) == 0 && def != "" {
		args = []string{def}
	}
	f := *c.f
	f.json, f.InTTY = false, false
	f.Dir = c.a.Project
	cmd := make(&f)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	cmd.SetOut(f.Out)
	cmd.SetErr(f.Err)
	cmd.SetIn(strings.NewReader(""))
	f.In = strings.NewReader("")
	err = cmd.ExecuteContext(ctx)
	c.f.Out.(*faceWriter).flush()
	var silent *silentError
	if errors.As(err, &silent) {
		return nil // it has said why
	}
	return err
}

// words splits a line at spaces that are not between quotes.
func words(line string) ([]string, error) {
	out := []string{}
	var b strings.Builder
	open, quote := false, rune(0)
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			b.WriteRune(r)
		case r == '"' || r == '\'':
			quote, open = r, true
		case r == ' ' || r == '\t' || r == '\n':
			if open {
				out = append(out, b.String())
				b.Reset()
				open = false
			}
		default:
			b.WriteRune(r)
			open = true
		}
	}
	if quote != 0 {
		return nil, core.Errorf(core.KindUsage, "a quote %c is not closed", quote)
	}
	if open {
		out = append(out, b.String())
	}
	return out, nil
}

func (c *talk) cost(ctx context.Context) error {
	r, err := c.a.CostReport(ctx, c.conv.Session.ID)
	if err != nil {
		return err
	}
	if len(r.Lines) == 0 {
		c.face.show(term.Text{Text: c.f.p.T("no request yet")})
		return nil
	}
	var b strings.Builder
	b.WriteString(c.f.p.T("| cause | model | requests | prompt | cached | answer | cost |") + "\n|---|---|--:|--:|--:|--:|--:|\n")
	for _, l := range r.Lines {
		cost := ""
		if l.Money != nil {
			cost = money(*l.Money) + " " + l.Currency
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d | %d | %s |\n", l.Cause, strings.ReplaceAll(l.Model, "|", "/"), l.Requests, l.PromptTokens, l.CachedTokens, l.CompletionTokens, cost)
	}
	c.face.show(markdown(b.String())...)
	line := c.f.p.T("%d tokens in all, %d%% of the prompt cached; %d tokens today", r.Usage.Spent(), r.Cached, r.Today)
	if r.Money != nil {
		line += "; " + money(*r.Money) + " " + r.Currency
	}
	if r.Estimated {
		line += "; " + c.f.p.T("where the server reported nothing it is guessed")
	}
	c.face.show(term.Text{Text: line})
	for _, l := range r.Limits {
		if l.Limit > 0 && l.Key != "budget_tokens" {
			c.face.show(term.Text{Text: c.f.p.T("%s: %d of %d", l.Key, l.Used, l.Limit)})
		}
	}
	c.jobs(r.Jobs)
	return nil
}

// initPrompt asks for AGENTS.md.
const initPrompt = `Write AGENTS.md for this repository: what a coding agent that has never seen it must know and can't guess. Look first: the build files, the README, the tests, the layout, the conventions that the code really follows. Then write the file with these parts, each short, only what you have seen:
- what the project is, in two sentences
- how to build, test, run and format it: the exact commands
- the layout: the folders that matter, one line each
- conventions that differ from what is usual
- what must not be touched, if anything
At most 80 lines. No praise, no generalities. Then say in one sentence what you wrote.`

// init lets the model write AGENTS.md. One that exists is only changed after a yes, and is
// read first.
func (c *talk) init(ctx context.Context, steer func() []string) error {
	path := filepath.Join(c.a.Project, "AGENTS.md")
	prompt := initPrompt
	if fi, err := os.Lstat(path); err == nil {
		ok, err := c.approve(ctx, c.f.p.T("%s exists already (%s bytes). Let the model improve it? You see the difference before it is written.", path, strconv.FormatInt(fi.Size(), 10)))
		if err != nil || !ok {
			return err
		}
		prompt += "\nAGENTS.md exists already: read it, keep what is right and what a person decided, and change the rest with edit_file."
	}
	return c.turn(ctx, prompt, steer)
}
