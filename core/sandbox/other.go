//go:build !linux

package sandbox

import "os/exec"

func prepare(*exec.Cmd, Profile) {}

// Enter confines this process. On this system it can't.
func Enter(Profile) (Report, error) { return Probe(), ErrUnsupported }

// Probe says what this machine can enforce.
func Probe() Report {
	return Report{Missing: []string{"confinement needs Linux with Landlock"}}
}
