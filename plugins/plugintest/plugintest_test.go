package plugintest_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/lingjiyidong/lj/plugins/host"
	"github.com/lingjiyidong/lj/plugins/plugintest"
	"github.com/lingjiyidong/lj/plugins/plugintest/badtool"
)

func TestMain(m *testing.M) {
	badtool.Main()
	os.Exit(m.Run())
}

func TestContract(t *testing.T) {
	root, err := os.MkdirTemp("/tmp", "ljt")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(root)
	run := func(tg plugintest.Target) plugintest.Report {
		tg.SocketRoot = root
		return plugintest.Run(t.Context(), tg)
	}
	kit := func(tool, sample string) plugintest.Target {
		return plugintest.Target{Command: badtool.Command("kit"), Name: tool, Sample: json.RawMessage(sample)}
	}
	for name, tg := range map[string]plugintest.Target{
		"sample":    kit("echo", `{"text":"x"}`),
		"generated": kit("sum", ``),
		"failing":   kit("fail", ``),
		"any name":  {Command: badtool.Command("single")},
		"ordinary":  {Command: badtool.Command("plain"), HostChecks: true},
	} {
		rep := run(tg)
		if !rep.OK || len(rep.Checks) != 8 || rep.Spec.Name == "" {
			t.Errorf("%s:\n%s", name, rep)
		}
	}
	for name, c := range map[string]struct {
		t      plugintest.Target
		check  string
		detail string
	}{
		"exit":     {plugintest.Target{Command: badtool.Command("exit")}, plugintest.CheckStart, "no configuration found"},
		"noise":    {plugintest.Target{Command: badtool.Command("noise")}, plugintest.CheckQuiet, "hello from init"},
		"name":     {kit("other", ``), plugintest.CheckName, "not other"},
		"schema":   {plugintest.Target{Command: badtool.Command("liar"), Name: "list"}, plugintest.CheckSchema, "schema"},
		"lenient":  {plugintest.Target{Command: badtool.Command("plain")}, plugintest.CheckArguments, "were taken"},
		"crash":    {kit("die", `{"text":"boom"}`), plugintest.CheckCall, "the bottom fell out"},
		"panic":    {kit("boom", `{"text":"boom"}`), plugintest.CheckCall, "nil map"},
		"error":    {kit("fail", `{}`), plugintest.CheckCall, "no such tea"},
		"stubborn": {plugintest.Target{Command: badtool.Command("stubborn"), HostChecks: true}, plugintest.CheckStop, "did not end"},
		"fork":     {kit("fork", `{"mark":"295"}`), plugintest.CheckProcesses, "behind"},
	} {
		t.Run(name, func(t *testing.T) {
			rep := run(c.t)
			var failed []plugintest.Check
			for _, k := range rep.Checks {
				if !k.OK {
					failed = append(failed, k)
				}
			}
			if rep.OK || len(failed) != 1 || failed[0].Name != c.check || !strings.Contains(failed[0].Detail, c.detail) {
				t.Errorf("%s", rep)
			}
		})
	}
}

func TestRunUsesAGivenHost(t *testing.T) {
	root, err := os.MkdirTemp("/tmp", "ljt")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(root)
	h, err := host.New(host.Options{SocketRoot: root})
	if err != nil {
		t.Fatal(err)
	}
	if rep := plugintest.Run(t.Context(), plugintest.Target{Command: badtool.Command("single"), Host: h}); !rep.OK {
		t.Errorf("%s", rep)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestSampleOf(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer","minimum":5},"c":{"type":"string"}},"required":["a","b"]}`: `{"a":"x","b":5}`,
		`{"type":"object","properties":{"e":{"enum":["q","r"]},"l":{"type":"array","items":{"type":"boolean"}}},"required":["e","l"]}`:         `{"e":"q","l":[]}`,
		`{"type":"object"}`: `{}`,
		`[`:                 `{}`,
	} {
		if got := string(plugintest.SampleOf(json.RawMessage(schema))); got != want {
			t.Errorf("%s: %s", schema, got)
		}
	}
}
