package cli

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/lingjiyidong/lj/cmd/internal/app"
	"github.com/lingjiyidong/lj/cmd/internal/term"
	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/llm/llmtest"
)

// demoScenes are what the model says, a file for each scene.
//
//go:embed demo/*.yaml
var demoScenes embed.FS

// demoMenu is the file of the scratch project.
const demoMenu = "# name cups price\r\ngreen 3 12\r\noolong 2 14\r\n"

func newDemo(f *factory) *cobra.Command {
	var keep, noGo bool
	cmd := &cobra.Command{
		Use: "demo", Short: f.p.T("Show lj at work on a scratch project, without a model server"), Args: exactArgs(),
		Long: f.p.T("A walk-through: the real agent with its real tools works on a scratch project. Only the model is\n" +
			"played by a script. Nothing of yours is touched; no network is used."),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.demo(cmd.Context(), keep, noGo) },
	}
	cmd.Flags().BoolVar(&keep, "keep", false, f.p.T("keep the scratch project"))
	cmd.Flags().BoolVar(&noGo, "without-go", false, f.p.T("leave out the scenes in which a tool is compiled"))
	return cmd
}

// demo is a running walk-through.
type demo struct {
	f       *factory
	sub     *factory // works in the scratch home
	project string
	home    string
	server  *llmtest.Server
	session string
	theme   term.Theme
	width   int
	n       int
	scenes  int
}

func (f *factory) demo(ctx context.Context, keep, noGo bool) error {
	dir, err := os.MkdirTemp("", "lj-demo-")
	if err != nil {
		return core.Errorf(core.KindFailed, "make a scratch directory: %w", err)
	}
	if keep {
		fmt.Fprintln(f.Err, f.p.T("the scratch project stays in %s", dir))
	} else {
		defer os.RemoveAll(dir)
	}
	d := &demo{f: f, project: filepath.Join(dir, "teahouse"), home: filepath.Join(dir, "home"), scenes: 5}
	d.theme.Color = f.OutTTY && f.env("NO_COLOR") == "" && f.env("TERM") != "dumb"
	d.width = 96
	if err := d.prepare(); err != nil {
		return err
	}
	if d.server, err = llmtest.Start(llmtest.Script{}); err != nil {
		return core.Errorf(core.KindFailed, "start the script's server: %w", err)
	}
	defer d.server.Close()
	var env []string
	for _, kv := range f.Environ {
		if k, _, _ := strings.Cut(kv, "="); !strings.HasPrefix(k, "LJ_") && !strings.HasPrefix(k, "OPENAI_") {
			env = append(env, kv)
		}
	}
	env = append(env, "LJ_HOME="+d.home, "OPENAI_BASE_URL="+d.server.URL(), "LJ_MODEL=scripted", "LJ_MODE=auto")
	sub := *f
	sub.Environ, sub.file, sub.flags, sub.json, sub.InTTY = env, "", map[string]any{}, false, false
	d.sub = &sub

	goErr := app.FindGo(d.home)
	if noGo || goErr != nil {
		d.scenes = 3
	}
	d.say(f.p.T("This is a walk-through: the agent, its tools and the files are real, the model is a script."))
	d.say(f.p.T("It works in %s, which holds one file:", d.project))
	d.show(term.Text{Text: strings.TrimRight(demoMenu, "\r\n"), Indent: "    "})

	d.scene(f.p.T("It remembers what you tell it."))
	if err := d.play(ctx, "1-memory", "Remember that prices in our menu are in yuan, never in euros."); err != nil {
		return err
	}
	switch {
	case noGo:
	case goErr != nil:
		d.say("\n" + f.p.T("The scenes in which it makes itself a tool are left out: tools are compiled with Go, and there is none here."))
		d.say("  " + core.NextOf(goErr))
	default:
		if err := d.tools(ctx); err != nil {
			return err
		}
	}
	if err := d.undo(ctx); err != nil {
		return err
	}
	d.scene(f.p.T("In a new conversation it still knows."))
	d.session = ""
	if err := d.play(ctx, "5-recall", "What currency are the prices in our menu in?"); err != nil {
		return err
	}
	if err := d.server.Verify(); err != nil {
		return core.Errorf(core.KindFailed, "the walk-through did not go as planned: %w", err)
	}
	d.say("\n" + f.p.T("That was it. With a model of your own: lj asks for one when you start it."))
	return nil
}

// prepare makes the scratch project and its home.
func (d *demo) prepare() error {
	fail := func(err error) error { return core.Errorf(core.KindFailed, "make a scratch project: %w", err) }
	if err := os.MkdirAll(filepath.Join(d.project, ".agent"), 0o755); err != nil {
		return fail(err)
	}
	if err := os.WriteFile(filepath.Join(d.project, "menu.txt"), []byte(demoMenu), 0o644); err != nil {
		return fail(err)
	}
	cache := filepath.Join(d.home, "cache")
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return fail(err)
	}
	// What is compiled here once need not be compiled again for the first tool of one's own.
	if file, err := app.UserSettings(d.f.Environ, ""); err == nil {
		shared := filepath.Join(filepath.Dir(file), "cache", "go-build")
		if os.MkdirAll(shared, 0o700) == nil {
			if err := os.Symlink(shared, filepath.Join(cache, "go-build")); err != nil {
				return fail(err)
			}
		}
	}
	return nil
}

func (d *demo) show(blocks ...term.Block) {
	for _, b := range blocks {
		for _, r := range b.Rows(d.theme, d.width) {
			fmt.Fprintln(d.f.Out, r)
		}
	}
}

func (d *demo) say(text string) { d.show(term.Text{Text: text}) }

func (d *demo) scene(title string) {
	d.n++
	d.show(term.Text{}, term.Text{Style: term.Bold | term.Underline, Text: fmt.Sprintf("%d/%d %s", d.n, d.scenes, title)})
}

// tools are the scenes with a tool: made, refused, mended, used, changed, rolled back.
func (d *demo) tools(ctx context.Context) error {
	f := d.f
	d.scene(f.p.T("It makes itself a tool. The first try is refused."))
	if app.FirstBuild(d.home) {
		d.show(term.Text{Style: term.Dim, Text: f.p.T("(The first build on a machine compiles Go's library too and takes one to three minutes.)")})
	}
	if err := d.play(ctx, "2-tool", "Add up the prices in menu.txt. I will need that every day."); err != nil {
		return err
	}
	d.scene(f.p.T("It changes the tool, and takes the change back."))
	if err := d.play(ctx, "3-rollback", "Count the cups too."); err != nil {
		return err
	}
	if err := d.turn(ctx, "No, prices alone were right. Take that back."); err != nil {
		return err
	}
	return d.versions(ctx)
}

// versions shows the history of the tool.
func (d *demo) versions(ctx context.Context) error {
	d.command("lj tools versions menu_total")
	return d.run(ctx, newTools(d.sub), "versions", "menu_total")
}

func (d *demo) command(line string) {
	d.show(term.Text{}, term.Spans{List: []term.Span{{Text: "$ " + line, Style: term.Bold}}})
}

// run runs a command of lj in the scratch project.
func (d *demo) run(ctx context.Context, cmd *cobra.Command, args ...string) error {
	d.sub.Dir = d.project
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append([]string{}, args...)) // nil would be the arguments of this program
	return cmd.ExecuteContext(ctx)
}

func (d *demo) undo(ctx context.Context) error {
	d.scene(d.f.p.T("What it does to files can be undone."))
	if err := d.play(ctx, "4-undo", "Oolong costs 140 now."); err != nil {
		return err
	}
	d.command("lj undo")
	if err := d.run(ctx, newUndo(d.sub)); err != nil {
		return err
	}
	got, err := os.ReadFile(filepath.Join(d.project, "menu.txt"))
	if err != nil {
		return core.Errorf(core.KindFailed, "read the menu: %w", err)
	}
	if !bytes.Equal(got, []byte(demoMenu)) {
		return core.Errorf(core.KindFailed, "the walk-through did not go as planned: menu.txt is %q after the undo", got)
	}
	d.say(d.f.p.T("menu.txt is byte for byte what it was."))
	return nil
}

// play lets the model speak a scene's lines to a message.
func (d *demo) play(ctx context.Context, scene, prompt string) error {
	raw, err := demoScenes.ReadFile("demo/" + scene + ".yaml")
	if err != nil {
		return core.Errorf(core.KindInternal, "the script of the walk-through: %w", err)
	}
	script, err := llmtest.Parse(raw)
	if err != nil {
		return core.Errorf(core.KindInternal, "the script of the walk-through: %s: %w", scene, err)
	}
	d.server.Add(script.Turns...)
	return d.turn(ctx, prompt)
}

func (d *demo) turn(ctx context.Context, prompt string) error {
	d.show(said(prompt)...)
	a, err := d.sub.open(ctx, d.project)
	if err != nil {
		return err
	}
	defer a.Close()
	defer a.Settle() // the home is removed at the end
	o := app.TurnOptions{Prompt: prompt, Session: d.session, Yolo: true}
	var md term.Markdown
	life := newSigns(d.f, d.theme)
	defer life.end()
	args := map[string]string{}
	o.Events = func(e core.Event) {
		switch e.Type {
		case core.EventText:
			life.end()
			d.show(md.Write(e.Text)...)
		case core.EventToolStart:
			life.end()
			d.show(md.Close()...)
			args[e.ID] = shortArgs(e.Args, 70)
			life.begin(e.Name)
		case core.EventToolProgress:
			life.note(d.f.p.Tell(lastLine(e.Text)))
		case core.EventToolEnd:
			life.end()
			d.show(toolEnd(e, args[e.ID]))
		case core.EventMemory:
			life.end()
			d.show(md.Close()...)
			d.show(term.Text{Style: term.Dim, Text: "lj: " + d.f.p.T("memory %s: %s", d.f.did(e.Action), term.Cut(oneLine(e.Content), 80))})
		case core.EventNotice:
			life.end()
			d.say("lj: " + d.f.p.TellLines(e.Text))
		}
	}
	res := a.Run(ctx, o)
	life.end()
	d.show(md.Close()...)
	d.session = res.SessionID
	if res.Err != nil {
		return res.Err
	}
	if len(res.Denied) > 0 {
		return core.Errorf(core.KindDenied, "the walk-through was denied %s", res.Denied[0].Tool)
	}
	return nil
}

// signs of life of a call that takes its time: a line that moves on a terminal, a line for
// each step elsewhere. Safe for use by several goroutines.
type signs struct {
	f     *factory
	theme term.Theme
	mu    sync.Mutex
	name  string
	text  string
	from  time.Time
	stop  chan struct{}
	drawn bool
}

func newSigns(f *factory, t term.Theme) *signs { return &signs{f: f, theme: t} }

func (s *signs) begin(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.name, s.text, s.from, s.stop = name, "", time.Now(), make(chan struct{})
	if !s.f.OutTTY || s.f.env("TERM") == "dumb" {
		return
	}
	go func(stop chan struct{}) {
		tick := time.NewTicker(tickEvery)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			s.mu.Lock()
			if s.stop == stop {
				row := term.Cut(fmt.Sprintf("%s %s %s %s", spinner[n%len(spinner)], s.name, span(time.Since(s.from).Truncate(100*time.Millisecond)), term.Clean(s.text)), 70)
				fmt.Fprint(s.f.Out, "\r"+s.theme.Paint(term.Dim, row)+"\x1b[K")
				s.drawn = true
			}
			s.mu.Unlock()
		}
	}(s.stop)
}

func (s *signs) note(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = text
	if s.stop != nil && !s.f.OutTTY {
		fmt.Fprintln(s.f.Out, "    "+term.Clean(text))
	}
}

func (s *signs) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop == nil {
		return
	}
	close(s.stop)
	s.stop = nil
	if s.drawn {
		fmt.Fprint(s.f.Out, "\r\x1b[K")
		s.drawn = false
	}
}
