package app

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/policy"
)

// kind is the type of a setting's value.
type kind string

const (
	kindText     kind = "text"
	kindInt      kind = "number"
	kindFloat    kind = "decimal number"
	kindBool     kind = "true or false"
	kindList     kind = "list"
	kindDuration kind = "seconds or a span such as 90s, 5m"
)

// key is one setting.
type key struct {
	name   string
	kind   kind
	def    any
	doc    string
	min    float64
	max    float64 // 0: no upper bound
	oneOf  []string
	secret bool
	// narrow says how a project may set it without trust: "" not at all, "lower" a smaller
	// number (0 counts as no limit), "add" more entries, "plan" only to the value plan.
	narrow string
	// check judges one entry of a list.
	check func(string) error
}

var keys = []key{
	{name: "base_url", kind: kindText, doc: "OpenAI-compatible server; ends in /v1"},
	{name: "api_key", kind: kindText, doc: "key of the server", secret: true},
	{name: "model", kind: kindText, doc: "model for turns; empty: the preset's default, else the first that the server offers"},
	{name: "cheap_model", kind: kindText, doc: "model for titles, summaries, extraction; empty: the main model"},
	{name: "max_tokens", kind: kindInt, def: 0, doc: "most tokens of one answer; 0: the server's default"},
	{name: "max_context_tokens", kind: kindInt, def: 0, doc: "window of the model in tokens; 0: the preset's, else 128000"},
	{name: "temperature", kind: kindFloat, doc: "sampling temperature, 0 to 2; empty: the server's default", max: 2},
	{name: "reasoning", kind: kindText, doc: "effort of reasoning models; empty: the server's default", oneOf: []string{"", "minimal", "low", "medium", "high"}},
	{name: "vision", kind: kindText, doc: "whether the model can see pictures; empty: try", oneOf: []string{"", "true", "false"}},
	{name: "mode", kind: kindText, def: "ask", doc: "what may happen without a question", oneOf: []string{"ask", "auto", "plan"}, narrow: "plan"},
	{name: "max_steps", kind: kindInt, def: 50, doc: "most model requests of one turn; 0: no limit", narrow: "lower"},
	{name: "budget_tokens", kind: kindInt, def: 0, doc: "most tokens of one turn; 0: no limit", narrow: "lower"},
	{name: "session_tokens", kind: kindInt, def: 0, doc: "most tokens of one session; 0: no limit", narrow: "lower"},
	{name: "daily_tokens", kind: kindInt, def: 0, doc: "most tokens of one day, all causes; 0: no limit", narrow: "lower"},
	{name: "permissions.allow", kind: kindList, doc: "rules that are allowed without a question", check: policy.CheckRule},
	{name: "permissions.ask", kind: kindList, doc: "rules that always ask", narrow: "add", check: policy.CheckRule},
	{name: "permissions.deny", kind: kindList, doc: "rules that are always denied", narrow: "add", check: policy.CheckRule},
	{name: "bash.timeout", kind: kindDuration, def: 120, doc: "default limit of a command", min: 1, max: 86400, narrow: "lower"},
	{name: "bash.sockets", kind: kindList, doc: "unix sockets that commands may reach: paths, or $SSH_AUTH_SOCK and the like"},
	{name: "memory.enabled", kind: kindBool, def: true, doc: "use long-term memory"},
	{name: "memory.extract", kind: kindBool, def: true, doc: "extract memories from conversations when idle"},
	{name: "memory.max_chars", kind: kindInt, def: 4000, doc: "most characters of memory in one message", narrow: "lower"},
	{name: "evolve.auto", kind: kindList, doc: "kinds of proposals that go live without accept: tools, memory, prompts, skills, docs"},
	{name: "evolve.daily_tokens", kind: kindInt, def: 100000, doc: "most tokens of a day for titles, summaries, extraction and evolve; 0: none", narrow: "lower"},
	{name: "evolve.idle", kind: kindDuration, def: 20, doc: "silence in a chat after which titles, summaries and memories are made; 0: never"},
	{name: "plan.max_workers", kind: kindInt, def: 3, doc: "most steps of a plan at the same time", min: 1, max: 16, narrow: "lower"},
	{name: "plan.step_timeout", kind: kindDuration, def: 1800, doc: "limit of one step of a plan", min: 1, narrow: "lower"},
	{name: "web.search", kind: kindText, def: "duckduckgo", doc: "search engine", oneOf: []string{"duckduckgo", "searxng", "brave", "tavily"}},
	{name: "web.search_url", kind: kindText, doc: "address of the SearXNG server"},
	{name: "web.search_key", kind: kindText, doc: "key of the search engine", secret: true},
	{name: "web.allow_private", kind: kindBool, def: false, doc: "web_fetch may read private addresses"},
	{name: "embedding.base_url", kind: kindText, doc: "server for embeddings; empty: lexical search only"},
	{name: "embedding.model", kind: kindText, doc: "model for embeddings"},
	{name: "embedding.api_key", kind: kindText, doc: "key of the embeddings server", secret: true},
	{name: "price.prompt", kind: kindFloat, doc: "price of a million prompt tokens"},
	{name: "price.cached", kind: kindFloat, doc: "price of a million cached prompt tokens"},
	{name: "price.completion", kind: kindFloat, doc: "price of a million completion tokens"},
	{name: "price.currency", kind: kindText, def: "USD", doc: "currency of the prices"},
	{name: "trace_headers", kind: kindBool, def: false, doc: "send X-LJ-Cause and X-LJ-Step also to servers that are not on loopback"},
	{name: "timeout.connect", kind: kindDuration, def: 10, doc: "limit for connecting to the server", min: 1},
	{name: "timeout.first_byte", kind: kindDuration, def: 300, doc: "limit until an answer begins", min: 1},
	{name: "timeout.idle", kind: kindDuration, def: 120, doc: "limit of silence within an answer", min: 1},
	{name: "retries", kind: kindInt, def: 4, doc: "most retries of one request", max: 20},
	{name: "lang", kind: kindText, doc: "language of messages; empty: LJ_LANG, then LANG", oneOf: []string{"", "en", "zh"}},
}

func keyNames() []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = k.name
	}
	return out
}

func findKey(name string) (key, bool) {
	for _, k := range keys {
		if k.name == name {
			return k, true
		}
	}
	return key{}, false
}

// nearestKey is the known key that name probably means, "" for none. The last part alone
// counts too: "timeout" is near "bash.timeout".
func nearestKey(name string) string {
	if n := core.Nearest(name, keyNames()); n != "" {
		return n
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	var hits []string
	for _, k := range keys {
		if k.name[strings.LastIndexByte(k.name, '.')+1:] == last {
			hits = append(hits, k.name)
		}
	}
	sort.Strings(hits)
	if hits != nil {
		return hits[0]
	}
	return ""
}

// parse turns a value from a file, the environment or the command line into the key's
// type: string, int, float64, bool or []string. nil is "not set".
func (k key) parse(v any) (any, error) {
	if v == nil {
		return nil, nil
	}
	bad := func(why string) error {
		return fmt.Errorf("%s wants %s, not %q%s", k.name, k.kind, fmt.Sprint(v), why)
	}
	switch k.kind {
	case kindText:
		s, ok := v.(string)
		if !ok {
			switch v.(type) {
			case int, float64, bool:
				s = fmt.Sprint(v)
			default:
				return nil, bad("")
			}
		}
		s = strings.TrimSpace(s)
		if k.oneOf != nil {
			for _, o := range k.oneOf {
				if o == s {
					return s, nil
				}
			}
			return nil, fmt.Errorf("%s wants one of %s, not %q", k.name, strings.Join(nonEmpty(k.oneOf), ", "), s)
		}
		return s, nil
	case kindBool:
		switch x := v.(type) {
		case bool:
			return x, nil
		case string:
			if b, err := strconv.ParseBool(strings.TrimSpace(x)); err == nil {
				return b, nil
			}
		}
		return nil, bad("")
	case kindInt, kindDuration, kindFloat:
		var f float64
		switch x := v.(type) {
		case int:
			f = float64(x)
		case float64:
			f = x
		case string:
			x = strings.TrimSpace(x)
			if x == "" {
				return nil, nil
			}
			n, err := strconv.ParseFloat(strings.ReplaceAll(x, "_", ""), 64)
			if err != nil {
				d, derr := time.ParseDuration(x)
				if k.kind != kindDuration || derr != nil {
					return nil, bad("")
				}
				n = d.Seconds()
			}
			f = n
		default:
			return nil, bad("")
		}
		if f != f || f < k.min || k.max > 0 && f > k.max {
			if k.max > 0 {
				return nil, bad(fmt.Sprintf(" (from %v to %v)", k.min, k.max))
			}
			return nil, bad(fmt.Sprintf(" (%v or more)", k.min))
		}
		if k.kind == kindFloat {
			return f, nil
		}
		if f != float64(int(f)) {
			return nil, bad(" (a whole number)")
		}
		return int(f), nil
	case kindList:
		list, err := k.list(v)
		for _, e := range list {
			if err == nil && k.check != nil {
				err = k.check(e)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.name, err)
		}
		return list, nil
	}
	return nil, bad("")
}

// usable is what remains of a list in which an entry was refused with err: the entries
// that are good. Of lists that narrow nothing is left out, so that a rule that was meant to
// deny is never passed over: who uses them meets the error.
func (k key) usable(v any, err error) ([]string, bool) {
	if err == nil || k.check == nil {
		return nil, false
	}
	list, lerr := k.list(v)
	if lerr != nil {
		return nil, false
	}
	if k.narrow == "add" {
		return list, true
	}
	return slices.DeleteFunc(slices.Clone(list), func(e string) bool { return k.check(e) != nil }), true
}

// list turns a value into a list of texts.
func (k key) list(v any) ([]string, error) {
	switch x := v.(type) {
	case []any:
		out := make([]string, 0, len(x))
		for _, e := range x {
			s, ok := e.(string)
			if !ok {
				return nil, fmt.Errorf("a list of texts is wanted, not %v", e)
			}
			out = append(out, s)
		}
		return out, nil
	case []string:
		return x, nil
	case string:
		if strings.TrimSpace(x) == "" {
			return []string{}, nil
		}
		return splitList(x), nil
	}
	return nil, fmt.Errorf("a list is wanted, not %q", fmt.Sprint(v))
}

// splitList splits at commas that are not inside brackets, so that a rule such as
// bash(git log, *) stays whole.
func splitList(s string) []string {
	var out []string
	depth, from := 0, 0
	for i, r := range s {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth <= 0 {
				out = append(out, strings.TrimSpace(s[from:i]))
				from = i + 1
			}
		}
	}
	return append(out, strings.TrimSpace(s[from:]))
}

func nonEmpty(list []string) []string {
	var out []string
	for _, s := range list {
		if s != "" {
			out = append(out, s)
		}
	}
	return out
}
