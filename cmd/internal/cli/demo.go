package cli

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lingjiyidong/lj/cmd/internal/app"
	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/llm/llmtest"
)

//go:embed demo/script.yaml
var demoScript []byte

// demoFiles is the scratch project of the walk-through.
var demoFiles = map[string]string{
	"menu.txt": "# name cups price\r\ngreen 3 12\r\noolong 2 14\r\n",
	"total.sh": "#!/bin/sh\n# Prints what all teas on the menu cost together.\ntr -d '\\r' <menu.txt | awk '!/^#/ { sum += $2 } END { print sum }'\n",
	"test.sh":  "#!/bin/sh\nwant=26\ngot=$(sh total.sh)\n[ \"$got\" = \"$want\" ] && echo ok && exit 0\necho \"total is $got, want $want\"\nexit 1\n",
}

// demoPrompts are what the user says in it.
var demoPrompts = []string{
	"total.sh prints the wrong sum. Find out why and fix it.",
	"Put pu'er on the menu, one cup for 18.",
}

func newDemo(f *factory) *cobra.Command {
	var keep bool
	cmd := &cobra.Command{
		Use: "demo", Short: f.p.T("Show lj at work on a scratch project, without a model server"), Args: exactArgs(),
		Long: f.p.T("A walk-through: the real agent with its real tools works on a scratch project. Only the model is\n" +
			"played by a script. Nothing of yours is touched; no network is used."),
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := os.MkdirTemp("", "lj-demo-")
			if err != nil {
				return core.Errorf(core.KindFailed, "make a scratch directory: %w", err)
			}
			if keep {
				fmt.Fprintln(f.Err, f.p.T("the scratch project stays in %s", dir))
			} else {
				defer os.RemoveAll(dir)
			}
			return f.demo(cmd, dir)
		},
	}
	cmd.Flags().BoolVar(&keep, "keep", false, f.p.T("keep the scratch project"))
	return cmd
}

func (f *factory) demo(cmd *cobra.Command, dir string) error {
	script, err := llmtest.Parse(demoScript)
	if err != nil {
		return core.Errorf(core.KindInternal, "the script of the walk-through: %w", err)
	}
	server, err := llmtest.Start(script)
	if err != nil {
		return core.Errorf(core.KindFailed, "start the script's server: %w", err)
	}
	defer server.Close()
	project := filepath.Join(dir, "teahouse")
	if err := os.MkdirAll(filepath.Join(project, ".agent"), 0o755); err != nil {
		return core.Errorf(core.KindFailed, "make a scratch project: %w", err)
	}
	for name, text := range demoFiles {
		if err := os.WriteFile(filepath.Join(project, name), []byte(text), 0o644); err != nil {
			return core.Errorf(core.KindFailed, "make a scratch project: %w", err)
		}
	}
	var env []string
	for _, kv := range f.Environ {
		if k, _, _ := strings.Cut(kv, "="); !strings.HasPrefix(k, "LJ_") && !strings.HasPrefix(k, "OPENAI_") {
			env = append(env, kv)
		}
	}
	env = append(env, "LJ_HOME="+filepath.Join(dir, "home"), "OPENAI_BASE_URL="+server.URL(), "LJ_MODEL=scripted", "LJ_MODE=auto")
	sub := *f
	sub.Environ, sub.file, sub.flags, sub.json = env, "", map[string]any{}, false
	fmt.Fprintln(f.Out, f.p.T("This is a walk-through: the agent, its tools and the files are real, the model is a script."))
	fmt.Fprintln(f.Out, f.p.T("With your own model server: set OPENAI_BASE_URL and OPENAI_API_KEY, then lj run \"…\"."))
	session := ""
	for _, prompt := range demoPrompts {
		fmt.Fprintf(f.Out, "\n> %s\n", prompt)
		if err := sub.demoTurn(cmd, project, &session, prompt); err != nil {
			return err
		}
	}
	if err := server.Verify(); err != nil {
		return core.Errorf(core.KindFailed, "the walk-through did not go as planned: %w", err)
	}
	return nil
}

func (f *factory) demoTurn(cmd *cobra.Command, project string, session *string, prompt string) error {
	a, err := f.open(cmd.Context(), project)
	if err != nil {
		return err
	}
	defer a.Close()
	o := app.TurnOptions{Prompt: prompt, Session: *session, Yolo: true}
	args := map[string]string{}
	o.Events = func(e core.Event) {
		switch e.Type {
		case core.EventText:
			fmt.Fprint(f.Out, e.Text)
		case core.EventToolStart:
			args[e.ID] = shortArgs(e.Args, 70)
		case core.EventToolEnd:
			var ms int64
			if e.MS != nil {
				ms = *e.MS
			}
			fmt.Fprintf(f.Out, "  %s %s %s (%d ms)\n", marks[e.Status], e.Name, args[e.ID], ms)
		}
	}
	res := a.Run(cmd.Context(), o)
	*session = res.SessionID
	if res.Err != nil {
		return res.Err
	}
	if len(res.Denied) > 0 {
		return core.Errorf(core.KindDenied, "the walk-through was denied %s", res.Denied[0].Tool)
	}
	return nil
}
