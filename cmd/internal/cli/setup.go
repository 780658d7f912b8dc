package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	xterm "golang.org/x/term"

	"github.com/lingjiyidong/lj/cmd/internal/app"
	"github.com/lingjiyidong/lj/core"
)

// How long setting up waits for a server.
const (
	ollamaPatience = 700 * time.Millisecond
	checkPatience  = 20 * time.Second
)

// setup finds a model server for a first start on a terminal: one on this machine, else
// what the person says. Where one is configured, or a key stands in the environment, it
// does nothing.
func setup(ctx context.Context, f *factory, cwd string) error {
	a, err := f.open(ctx, cwd)
	if err != nil {
		return err
	}
	needed, file := a.NeedsServer(), a.UserFile()
	if err := a.Close(); err != nil || !needed {
		return err
	}
	s := &setter{f: f, file: file}
	fmt.Fprintln(f.Err, f.p.T("lj needs a model server. There is none in the settings and no key in the environment."))
	for _, p := range app.Providers() {
		if p.Name != "ollama" {
			continue
		}
		list, err := app.Offers(ctx, f.ollama(p.BaseURL), "", f.Version, ollamaPatience)
		if err != nil || len(list) == 0 {
			continue
		}
		answer, err := s.line(ctx, f.p.T("Ollama runs on this machine with %d models. Use it? [Y/n]", len(list))+" ")
		if err != nil {
			return err
		}
		if answer == "" || yes(answer) {
			model, err := s.model(ctx, list, list[0].ID)
			if err != nil {
				return err
			}
			return s.store(f.ollama(p.BaseURL), "", model)
		}
	}
	return s.ask(ctx)
}

// ollama is where Ollama answers: its own variable may say another place.
func (f *factory) ollama(usual string) string {
	host := f.env("OLLAMA_HOST")
	if host == "" {
		return usual
	}
	if !strings.Contains(host, "://") {
		host = "http://" + host
	}
	host = strings.Replace(strings.TrimRight(host, "/"), "//0.0.0.0", "//127.0.0.1", 1)
	if at := strings.Index(host, "://"); !strings.Contains(host[at+3:], ":") {
		host += ":11434"
	}
	return host + "/v1"
}

func yes(s string) bool {
	switch strings.ToLower(s) {
	case "y", "yes", "是", "好":
		return true
	}
	return false
}

// setter asks for a server and stores it.
type setter struct {
	f    *factory
	file string
}

// line reads one line; byte by byte, so that what follows it stays for others.
func (s *setter) line(ctx context.Context, prompt string) (string, error) {
	fmt.Fprint(s.f.Err, prompt)
	return s.read(ctx, func() (string, error) {
		var b []byte
		one := make([]byte, 1)
		for {
			n, err := s.f.In.Read(one)
			if n == 1 && one[0] == '\n' {
				return string(b), nil
			}
			if n == 1 {
				b = append(b, one[0])
			}
			if err != nil {
				return string(b), err
			}
		}
	})
}

// hidden reads a line that is not shown.
func (s *setter) hidden(ctx context.Context, prompt string) (string, error) {
	file, ok := s.f.In.(*os.File)
	if !ok {
		return s.line(ctx, prompt)
	}
	fmt.Fprint(s.f.Err, prompt)
	state, err := xterm.GetState(int(file.Fd()))
	if err != nil {
		return "", core.Errorf(core.KindFailed, "set up the terminal: %w", err)
	}
	text, err := s.read(ctx, func() (string, error) {
		b, err := xterm.ReadPassword(int(file.Fd()))
		return string(b), err
	})
	_ = xterm.Restore(int(file.Fd()), state) // also after an interrupt
	fmt.Fprintln(s.f.Err)
	return text, err
}

func (s *setter) read(ctx context.Context, fn func() (string, error)) (string, error) {
	type got struct {
		text string
		err  error
	}
	ch := make(chan got, 1)
	go func() {
		t, err := fn()
		ch <- got{strings.TrimSpace(t), err}
	}()
	select {
	case g := <-ch:
		if errors.Is(g.err, io.EOF) {
			return "", core.Errorf(core.KindConfig, "no model server is configured").Hint("lj demo shows lj without a server")
		}
		return g.text, g.err
	case <-ctx.Done():
		return "", core.Errorf(core.KindInterrupted, "interrupted")
	}
}

// demoWanted says that the person would rather see the walk-through.
var errDemo = errors.New("the walk-through is wanted")

func (s *setter) ask(ctx context.Context) error {
	f := s.f
	list := app.Providers()
	for i, p := range list {
		fmt.Fprintf(f.Err, "  %2d  %-12s %s\n", i+1, p.Name, p.BaseURL)
	}
	fmt.Fprintf(f.Err, "   %s\n   %s\n", f.p.T("or the address of another OpenAI-compatible server (https://…/v1)"), f.p.T("demo shows lj without a server, quit leaves"))
	for {
		answer, err := s.line(ctx, f.p.T("Which one? (number, name, address, demo or quit)")+" ")
		if err != nil {
			return err
		}
		var p app.Provider
		switch n, nerr := strconv.Atoi(answer); {
		case answer == "":
			continue
		case answer == "demo" || answer == "d":
			return errDemo
		case answer == "quit" || answer == "q":
			return core.Errorf(core.KindConfig, "no model server is configured").
				Hint("set OPENAI_BASE_URL and OPENAI_API_KEY, or lj config set base_url https://…/v1; lj demo shows lj without a server")
		case nerr == nil && n >= 1 && n <= len(list):
			p = list[n-1]
		case strings.Contains(answer, "://"):
			p = app.Provider{BaseURL: answer}
		default:
			for _, x := range list {
				if strings.EqualFold(x.Name, answer) {
					p = x
				}
			}
		}
		if p.BaseURL == "" {
			fmt.Fprintln(f.Err, f.p.T("%q is none of them", answer))
			continue
		}
		if p.Note != "" {
			fmt.Fprintln(f.Err, "  "+f.p.Tell(p.Note))
		}
		done, err := s.check(ctx, p)
		if err != nil || done {
			return err
		}
	}
}

// check asks for the key, tries it, asks for the model and stores all. done is false when
// the server did not take it.
func (s *setter) check(ctx context.Context, p app.Provider) (done bool, err error) {
	f := s.f
	key := ""
	if p.Name != "ollama" {
		if key, err = s.hidden(ctx, f.p.T("Key of %s (not shown; empty for none):", p.BaseURL)+" "); err != nil {
			return false, err
		}
	}
	fmt.Fprintln(f.Err, f.p.T("asking %s …", p.BaseURL))
	list, err := app.Offers(ctx, p.BaseURL, key, f.Version, checkPatience)
	if ctx.Err() != nil {
		return false, core.Errorf(core.KindInterrupted, "interrupted")
	}
	if err != nil {
		f.printError(err)
		answer, lerr := s.line(ctx, f.p.T("Store it all the same? [y/N]")+" ")
		if lerr != nil || !yes(answer) {
			return false, lerr
		}
	}
	def := p.Model
	if def == "" && len(list) > 0 {
		def = list[0].ID
	}
	if len(list) > 0 && def != "" {
		offered := false
		for _, m := range list {
			offered = offered || m.ID == def
		}
		if !offered {
			def = list[0].ID
		}
	}
	model, err := s.model(ctx, list, def)
	if err != nil {
		return false, err
	}
	return true, s.store(p.BaseURL, key, model)
}

// model asks which model to use.
func (s *setter) model(ctx context.Context, list []app.OfferedModel, def string) (string, error) {
	f := s.f
	const most = 20
	for i, m := range list {
		if i == most {
			fmt.Fprintln(f.Err, "      "+f.p.T("and %d more", len(list)-most))
			break
		}
		fmt.Fprintf(f.Err, "  %2d  %s\n", i+1, m.ID)
	}
	for {
		answer, err := s.line(ctx, f.p.T("Which model? (number or name; Enter for %s)", def)+" ")
		if err != nil {
			return "", err
		}
		n, nerr := strconv.Atoi(answer)
		switch {
		case answer == "" && def != "":
			return def, nil
		case answer == "":
			continue
		case nerr == nil && n >= 1 && n <= len(list):
			return list[n-1].ID, nil
		}
		for _, m := range list {
			if m.ID == answer {
				return answer, nil
			}
		}
		if len(list) == 0 {
			return answer, nil
		}
		fmt.Fprintln(f.Err, f.p.T("%q is none of them", answer))
	}
}

// store writes the settings file; one that can't be parsed is left as it is.
func (s *setter) store(base, key, model string) error {
	for _, kv := range [][2]string{{"base_url", base}, {"api_key", key}, {"model", model}} {
		if kv[1] == "" {
			continue
		}
		if err := app.SetInFile(s.file, kv[0], kv[1]); err != nil {
			return err
		}
	}
	fmt.Fprintln(s.f.Err, s.f.p.T("stored in %s, readable by you alone; lj config set changes it", s.file))
	return nil
}
