package llmtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"go.yaml.in/yaml/v3"
)

type fileScript struct {
	Options fileOptions `yaml:"options"`
	Turns   []fileTurn  `yaml:"turns"`
}

type fileOptions struct {
	Key               string            `yaml:"key"`
	TokenLimit        int               `yaml:"token_limit"`
	ReasoningRequired bool              `yaml:"reasoning_required"`
	ReasoningField    string            `yaml:"reasoning_field"`
	Refuse            []string          `yaml:"refuse"`
	Models            []string          `yaml:"models"`
	Echo              bool              `yaml:"echo"`
	CheckPrefix       bool              `yaml:"check_prefix"`
	Lax               bool              `yaml:"lax"`
	Usage             *bool             `yaml:"usage"`
	Vars              map[string]string `yaml:"vars"`
}

type fileTurn struct {
	Text           string            `yaml:"text"`
	Reasoning      string            `yaml:"reasoning"`
	ReasoningField string            `yaml:"reasoning_field"`
	Calls          []fileCall        `yaml:"calls"`
	Usage          *fileUsage        `yaml:"usage"`
	NoUsage        bool              `yaml:"no_usage"`
	Finish         string            `yaml:"finish"`
	Status         int               `yaml:"status"`
	Headers        map[string]string `yaml:"headers"`
	Body           string            `yaml:"body"`
	Delay          span              `yaml:"delay"`
	CutAfter       int               `yaml:"cut_after"`
	Silence        span              `yaml:"silence"`
	SilenceAfter   int               `yaml:"silence_after"`
	Pings          int               `yaml:"pings"`
	PingEvery      span              `yaml:"ping_every"`
	ChunkSize      int               `yaml:"chunk_size"`
	WriteSize      int               `yaml:"write_size"`
	SameIndex      bool              `yaml:"same_index"`
	NoID           bool              `yaml:"no_id"`
	ObjectArgs     bool              `yaml:"object_args"`
	NoDone         bool              `yaml:"no_done"`
	JSON           bool              `yaml:"json"`
	RawSSE         []string          `yaml:"raw_sse"`
	When           *fileWhen         `yaml:"when"`
	Times          int               `yaml:"times"`
	Capture        map[string]string `yaml:"capture"`
}

type fileCall struct {
	ID      string         `yaml:"id"`
	Name    string         `yaml:"name"`
	Args    map[string]any `yaml:"args"`
	RawArgs string         `yaml:"raw_args"`
}

type fileUsage struct {
	Prompt     int `yaml:"prompt"`
	Cached     int `yaml:"cached"`
	Completion int `yaml:"completion"`
}

type fileWhen struct {
	Cause  string `yaml:"cause"`
	Step   string `yaml:"step"`
	Model  string `yaml:"model"`
	User   string `yaml:"user"`
	System string `yaml:"system"`
	Last   string `yaml:"last"`
	Tools  *bool  `yaml:"tools"`
}

// span is a duration in a script.
type span time.Duration

// UnmarshalYAML reads "2s" and the like.
func (d *span) UnmarshalYAML(n *yaml.Node) error {
	v, err := time.ParseDuration(n.Value)
	if err != nil || v < 0 {
		return fmt.Errorf("line %d: %q is not a duration such as 300ms or 2s", n.Line, n.Value)
	}
	*d = span(v)
	return nil
}

// Load reads a script file.
func Load(path string) (Script, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Script{}, fmt.Errorf("read script: %w", err)
	}
	sc, err := Parse(b)
	if err != nil {
		return Script{}, fmt.Errorf("read script %s: %w", path, err)
	}
	return sc, nil
}

// Parse reads the text of a script file.
func Parse(b []byte) (Script, error) {
	var f fileScript
	var probe yaml.Node
	if err := yaml.Unmarshal(b, &probe); err != nil {
		return Script{}, err
	}
	var into any = &f
	if len(probe.Content) == 1 && probe.Content[0].Kind == yaml.SequenceNode {
		into = &f.Turns
	}
	dec := yaml.NewDecoder(bytes.NewReader(b))
	dec.KnownFields(true)
	if err := dec.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return Script{}, err
	}
	o := f.Options
	sc := Script{Options: Options{Key: o.Key, TokenLimit: o.TokenLimit, ReasoningRequired: o.ReasoningRequired, ReasoningField: o.ReasoningField,
		Refuse: o.Refuse, Models: o.Models, Echo: o.Echo, CheckPrefix: o.CheckPrefix, Lax: o.Lax,
		NoUsage: o.Usage != nil && !*o.Usage, Vars: o.Vars}}
	for i, t := range f.Turns {
		turn := Turn{Text: t.Text, Reasoning: t.Reasoning, ReasoningField: t.ReasoningField, NoUsage: t.NoUsage, FinishReason: t.Finish,
			Status: t.Status, Headers: t.Headers, Body: t.Body, Delay: time.Duration(t.Delay), CutAfter: t.CutAfter,
			Silence: time.Duration(t.Silence), SilenceAfter: t.SilenceAfter, Pings: t.Pings, PingEvery: time.Duration(t.PingEvery),
			ChunkSize: t.ChunkSize, WriteSize: t.WriteSize, SameIndex: t.SameIndex, NoID: t.NoID, ObjectArgs: t.ObjectArgs,
			NoDone: t.NoDone, JSON: t.JSON, RawSSE: t.RawSSE, Times: t.Times, Capture: t.Capture}
		if t.Usage != nil {
			turn.Usage = &Usage{t.Usage.Prompt, t.Usage.Cached, t.Usage.Completion}
		}
		if t.When != nil {
			w := When(*t.When)
			turn.When = &w
		}
		for _, c := range t.Calls {
			call := Call{ID: c.ID, Name: c.Name, RawArgs: c.RawArgs}
			if c.Args != nil {
				if _, err := json.Marshal(c.Args); err != nil {
					return Script{}, fmt.Errorf("turn %d: args of %s: %w", i+1, c.Name, err)
				}
				call.Args = c.Args
			}
			turn.Calls = append(turn.Calls, call)
		}
		sc.Turns = append(sc.Turns, turn)
	}
	return sc, nil
}
