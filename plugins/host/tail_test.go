package host

import (
	"strings"
	"testing"
)

// A stack trace says where in the tool's own code it was, and no more.
func TestPlaces(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"no trace", "panic: x\nsee tool.go:12\n\nbye", "panic: x\nsee tool.go:12\n\nbye"},
		{"caught", "panic: runtime error: index out of range [3] with length 0\n\nmain.parse(...)\n\tlj.tool/csv/tool.go:31\nmain.Run({0x769098?, 0xc000014a80?}, {{0xc0000a6000, 0x5}})\n\tlj.tool/csv/tool.go:20 +0x1d\n",
			"panic: runtime error: index out of range [3] with length 0\nat tool.go:31 (parse), tool.go:20 (Run)"},
		{"deep in the standard library", "panic: strings: negative Repeat count\n\nstrings.Repeat({0x1?, 0x2?}, 0x3?)\n\tstrings/strings.go:624 +0x65a\nmain.(*table).row(0xc0001)\n\t/x/tool.go:9 +0x1\nmain.Run.func1(0x1)\n\t/x/tool.go:4 +0x1",
			"panic: strings: negative Repeat count\nat tool.go:9 ((*table).row), tool.go:4 (Run.func1)"},
		{"ended the process", "panic: the bottom fell out\n\ngoroutine 35 [running]:\nmain.die.func1()\n\t/tmp/a b/tool.go:40 +0x25\ncreated by main.die in goroutine 34\n\t/tmp/a b/tool.go:39 +0x1a\n\ngoroutine 1 [select, locked to thread]:\nmain.main()\n\t/tmp/tool.go:4 +0x25\nexit status 2",
			"panic: the bottom fell out\nat tool.go:40 (die.func1), tool.go:39 (die)\nexit status 2"},
		{"none of its own", "fatal error: all goroutines are asleep - deadlock!\n\ngoroutine 1 gp=0x1 m=nil [select (no cases)]:\nruntime.gopark(0x1)\n\t/go/src/runtime/proc.go:424 +0xce\nnet/http.serve(0x1)\n\t/go/src/net/http/server.go:3 +0xce",
			"fatal error: all goroutines are asleep - deadlock!\nat server.go:3"},
		{"runtime alone", "fatal error: x\n\ngoroutine 1 [running]:\nruntime.gopark(0x1)\n\t/go/src/runtime/proc.go:424 +0xce", "fatal error: x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := places(c.in); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
	long := strings.Repeat("main.f(0x1)\n\t/x/tool.go:9 +0x1\n", 100)
	if got := telling("panic: deep\n\ngoroutine 1 [running]:\n"+long, 30, 4<<10); strings.Count(got, "tool.go") != 5 || strings.Contains(got, "0x1") {
		t.Errorf("%q", got)
	}
}
