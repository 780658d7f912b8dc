package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/history"
	"github.com/lingjiyidong/lj/store"
)

// Sessions lists stored conversations, newest first: those of this project, or of all
// with the sessions of plan steps too.
func (a *App) Sessions(ctx context.Context, all bool, limit int) ([]core.Session, error) {
	st, err := a.Store(ctx)
	if err != nil {
		return nil, err
	}
	f := store.SessionFilter{Project: a.Project, Kind: "chat", Limit: limit}
	if all {
		f.Project, f.Kind = "", ""
	}
	return st.Sessions(ctx, f)
}

// SearchSessions finds messages that hold all words: in this project, or in all.
func (a *App) SearchSessions(ctx context.Context, words string, all bool, limit int) ([]store.Hit, error) {
	st, err := a.Store(ctx)
	if err != nil {
		return nil, err
	}
	project := a.Project
	if all {
		project = ""
	}
	return st.Search(ctx, words, project, limit)
}

// RemoveSession removes a conversation with everything kept of it and returns its full id.
func (a *App) RemoveSession(ctx context.Context, id string) (string, error) {
	st, err := a.Store(ctx)
	if err != nil {
		return "", err
	}
	s, err := st.Session(ctx, id)
	if err != nil {
		return "", err
	}
	if err := a.holdSession(s.ID); err != nil {
		return "", err
	}
	if _, err := st.DeleteSession(ctx, s.ID); err != nil {
		return "", err
	}
	if err := os.RemoveAll(filepath.Join(a.Home, "cache", "output", s.ID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s.ID, fmt.Errorf("remove kept outputs: %w", err)
	}
	return s.ID, nil
}

// ForkSession begins a new conversation with the first turns of another; turn 0 means all.
func (a *App) ForkSession(ctx context.Context, id string, turn int) (core.Session, error) {
	st, err := a.Store(ctx)
	if err != nil {
		return core.Session{}, err
	}
	s, err := st.Session(ctx, id)
	if err != nil {
		return core.Session{}, err
	}
	if turn > s.Turns {
		return core.Session{}, core.Errorf(core.KindUsage, "session %s has %d turns, not %d", s.ID, s.Turns, turn)
	}
	c := &Conversation{app: a}
	c.Session = s
	if err := c.load(ctx, st); err != nil { // repairs the end, so that the copy is whole too
		return core.Session{}, err
	}
	msgs, err := st.Messages(ctx, s.ID)
	if err != nil {
		return core.Session{}, err
	}
	v7, err := uuid.NewV7()
	if err != nil {
		return core.Session{}, err
	}
	fork := s
	fork.ID, fork.Parent, fork.TitleBy = v7.String(), s.ID, s.TitleBy
	fork.CreatedAt, fork.UpdatedAt = time.Time{}, time.Time{}
	fork.Usage, fork.LastStop, fork.Turns, fork.Messages = core.Usage{}, "", 0, 0
	if err := st.CreateSession(ctx, fork); err != nil {
		return core.Session{}, err
	}
	var keep []core.StoredMessage
	for _, m := range msgs {
		if turn == 0 || m.Turn <= turn {
			keep = append(keep, m)
		}
	}
	if err := st.Append(ctx, fork.ID, keep...); err != nil {
		return core.Session{}, err
	}
	if err := st.SetKnown(ctx, fork.ID, c.known); err != nil {
		return core.Session{}, err
	}
	if err := a.forkRest(ctx, st, s, fork.ID, turn); err != nil {
		return core.Session{}, err
	}
	return st.Session(ctx, fork.ID)
}

// forkRest copies what belongs to a session beside its log: summaries of its turns, kept
// outputs, and, of a copy of the whole, the list and the plan.
func (a *App) forkRest(ctx context.Context, st *store.Store, s core.Session, to string, turn int) error {
	sums, err := st.Summaries(ctx, s.ID)
	if err != nil {
		return err
	}
	for _, x := range sums {
		if turn != 0 && x.Upto > turn {
			break
		}
		x.Session, x.Tokens = to, new(int) // a copy costs nothing
		if err := st.AddSummary(ctx, x); err != nil {
			return err
		}
	}
	outputs, err := st.Outputs(ctx, s.ID)
	if err != nil {
		return err
	}
	for _, o := range outputs {
		path := filepath.Join("cache", "output", to, filepath.Base(o.Path))
		if err := linkOrCopy(filepath.Join(a.Home, o.Path), filepath.Join(a.Home, path)); errors.Is(err, fs.ErrNotExist) {
			continue // it is no longer there for the other either
		} else if err != nil {
			return fmt.Errorf("copy output %s: %w", o.ID, err)
		}
		o.Session, o.Path = to, path
		if err := st.SaveOutput(ctx, o); err != nil {
			return err
		}
	}
	if turn != 0 && turn < s.Turns {
		return nil
	}
	todo, err := st.Todo(ctx, s.ID)
	if err != nil {
		return err
	}
	if err := st.SetTodo(ctx, to, todo); err != nil {
		return err
	}
	plan, err := st.Plan(ctx, s.ID)
	if err != nil || plan == nil {
		return err
	}
	return st.SetPlan(ctx, to, plan)
}

// linkOrCopy gives a file a second name, or copies it where that can't be.
func linkOrCopy(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	if err := os.Link(from, to); err == nil || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// Transcript is a whole stored conversation.
type Transcript struct {
	core.Session
	Log        []TranscriptMessage `json:"log"`
	Summaries  []store.Summary     `json:"summaries"`
	Background []Job               `json:"background"`
}

// TranscriptMessage is one message of a Transcript.
type TranscriptMessage struct {
	Seq        int64           `json:"seq"`
	Turn       int             `json:"turn"`
	At         time.Time       `json:"at"`
	Role       string          `json:"role"`
	Note       string          `json:"note,omitempty"`
	Content    string          `json:"content"`
	Reasoning  string          `json:"reasoning,omitempty"`
	ToolCalls  []core.ToolCall `json:"tool_calls,omitempty"`
	ToolCallID string          `json:"tool_call_id,omitempty"`
}

// Transcript reads a conversation.
func (a *App) Transcript(ctx context.Context, id string) (Transcript, error) {
	st, err := a.Store(ctx)
	if err != nil {
		return Transcript{}, err
	}
	s, err := st.Session(ctx, id)
	if err != nil {
		return Transcript{}, err
	}
	msgs, err := st.Messages(ctx, s.ID)
	if err != nil {
		return Transcript{}, err
	}
	t := Transcript{Session: s, Log: []TranscriptMessage{}}
	for _, m := range history.Log(msgs) {
		t.Log = append(t.Log, TranscriptMessage{m.Seq, m.Turn, m.At, m.Role, m.Note, m.Content, m.Reasoning, m.ToolCalls, m.ToolCallID})
	}
	if t.Summaries, err = st.Summaries(ctx, s.ID); err != nil {
		return t, err
	}
	if t.Summaries == nil {
		t.Summaries = []store.Summary{}
	}
	t.Background, err = a.Jobs(ctx, s.ID)
	return t, err
}

// Markdown writes the conversation for people.
func (t Transcript) Markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\nsession %s, %s, model %s, %d turns, %s\n", oneLineTitle(t.Title), t.ID, t.Project, t.Model, t.Turns, t.CreatedAt.Local().Format("2006-01-02 15:04"))
	for _, m := range t.Log {
		switch m.Role {
		case core.RoleUser:
			fmt.Fprintf(&b, "\n## %s\n\n%s\n", m.At.Local().Format("2006-01-02 15:04:05"), m.Content)
		case core.RoleAssistant:
			if m.Content != "" {
				fmt.Fprintf(&b, "\n%s\n", m.Content)
			}
			for _, c := range m.ToolCalls {
				fmt.Fprintf(&b, "\n- call %s `%s`\n", c.Name, strings.ReplaceAll(c.Arguments, "`", "'"))
			}
		case core.RoleTool:
			fence := "```"
			for strings.Contains(m.Content, fence) {
				fence += "`"
			}
			fmt.Fprintf(&b, "\n%s\n%s\n%s\n", fence, strings.TrimRight(m.Content, "\n"), fence)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func oneLineTitle(s string) string { return strings.Join(strings.Fields(s), " ") }

// OfferedModel is one model of the server.
type OfferedModel struct {
	ID      string `json:"id"`
	OwnedBy string `json:"owned_by"`
	Context int    `json:"context"`
	Main    bool   `json:"main"`
	Cheap   bool   `json:"cheap"`
}

// Models asks the server what it offers. note is what a user should know of the provider.
func (a *App) Models(ctx context.Context) (list []OfferedModel, note string, err error) {
	s, err := a.FindServer()
	if err != nil {
		return nil, "", err
	}
	name := s.Model
	if name == "" {
		name = "-" // the list itself names no model
	}
	c, _, err := a.Client(ctx, name)
	if err != nil {
		return nil, "", err
	}
	models, err := c.Models(ctx)
	if err != nil {
		return nil, "", err
	}
	list = []OfferedModel{}
	cheap := a.Config.String("cheap_model")
	for i, m := range models {
		list = append(list, OfferedModel{m.ID, m.OwnedBy, m.Context, m.ID == s.Model || s.Model == "" && i == 0, m.ID == cheap})
	}
	return list, s.Preset.Note, nil
}

// UserSettings is the settings file of the user.
func UserSettings(environ []string, file string) (string, error) {
	if file != "" {
		return filepath.Abs(file)
	}
	env := map[string]string{}
	for _, kv := range environ {
		if k, v, ok := strings.Cut(kv, "="); ok {
			env[k] = v
		}
	}
	home, err := homeDir(func(n string) string { return env[n] })
	if err != nil {
		return "", err
	}
	return filepath.Join(home, "config.yaml"), nil
}

// InitSettings writes the commented template where there is no file yet.
func InitSettings(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return core.Errorf(core.KindUsage, "%s exists already", path).Hint("lj config set KEY VALUE changes it")
	}
	return writePrivate(path, Template())
}
