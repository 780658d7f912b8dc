// Package early lets one binary be both a tool with plugins/sdk and a tool without it.
// The SDK takes over the process in its init function when a host started it; this
// package, which is initialised before (packages that are ready are initialised in the
// order of their import paths), hides the host's cookie from it in the modes that are
// meant to know nothing of the SDK.
//
//	early.Restore() // in such a mode, before plugin.Serve
package early

import "os"

// EnvMode names the mode of a test tool.
const EnvMode = "LJ_TEST_TOOL"

const cookieKey = "LJ_PLUGIN_COOKIE"

var cookie string

func init() {
	switch os.Getenv(EnvMode) {
	case "", "kit", "single":
		return
	}
	cookie = os.Getenv(cookieKey)
	_ = os.Unsetenv(cookieKey)
}

// Restore puts the host's cookie back.
func Restore() {
	if cookie != "" {
		_ = os.Setenv(cookieKey, cookie)
	}
}
