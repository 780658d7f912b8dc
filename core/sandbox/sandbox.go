// Package sandbox owns confinement: what a process of lj and everything it starts may
// touch, enforced by the kernel. It knows nothing of tools, rules or people: a Profile says
// what is allowed, Probe says what this machine can enforce.
//
// A process is confined at its start, once; what it starts inherits. Two ways in:
//
//	sandbox.Prepare(cmd, p)       // in the parent: name spaces the process is born in
//	rep, err := sandbox.Enter(p)  // in the process: close the door
//
// Mechanisms, each where the kernel has it: a mount name space in which protected places
// are read-only or empty (Landlock alone can't except a place below a writable one),
// Landlock for files, TCP ports, signals and abstract sockets, seccomp for the rest of the
// network and for what could open a new way out, no_new_privs, dropped capabilities,
// resource limits. What is missing is in the Report and must be told, never passed over.
package sandbox

import (
	"encoding/json"
	"errors"
	"os/exec"
	"slices"
)

// Net is what a process may do on the network.
type Net int

// The kinds of network access.
const (
	NetNone  Net = iota // no socket but those of its own server; no connect at all
	NetPorts            // TCP to Profile.Ports, and name resolution
	NetAll              // everything
)

// Profile says what a process may touch. The zero value may read and execute nothing but
// itself, write nothing and reach nobody.
type Profile struct {
	// ReadAll lets it read and execute what its user may. Otherwise Read and Exec count.
	ReadAll bool     `json:"read_all,omitempty"`
	Read    []string `json:"read,omitempty"` // files and directories
	Exec    []string `json:"exec,omitempty"` // programs and directories of them, read too
	Write   []string `json:"write,omitempty"`
	// Sockets is the directory in which it makes its server's socket.
	Sockets string `json:"sockets,omitempty"`
	// Protect are places that stay as they are, also below a writable one. They are
	// read-only in a mount name space of the process's own. What does not exist can't be
	// protected.
	Protect []string `json:"protect,omitempty"`
	// Pin are directories that can't be renamed or removed, so that what is protected in
	// them stays where it is. Renaming between a pinned directory and its surroundings
	// fails as between file systems.
	Pin []string `json:"pin,omitempty"`
	// Hide are places that look empty.
	Hide  []string `json:"hide,omitempty"`
	Net   Net      `json:"net,omitempty"`
	Ports []uint16 `json:"ports,omitempty"`
	// Limits; 0 is none.
	FileSize  uint64 `json:"file_size,omitempty"` // bytes of one file
	Files     uint64 `json:"files,omitempty"`     // open files
	Processes uint64 `json:"processes,omitempty"` // of the user; not enforced for root
	Memory    uint64 `json:"memory,omitempty"`    // bytes of data segment and heap
	CPU       uint64 `json:"cpu,omitempty"`       // seconds
}

// Report says what is in force, or could be.
type Report struct {
	Landlock   int      `json:"landlock"` // ABI version, 0 for none
	Seccomp    bool     `json:"seccomp"`
	NoNewPrivs bool     `json:"no_new_privs"`
	Mounts     bool     `json:"mounts"`  // protected places are enforced
	Missing    []string `json:"missing"` // what can't be enforced here, in words
}

// FilesEnforced says whether writing elsewhere, to protected places included, is refused
// by the kernel.
func (r Report) FilesEnforced() bool { return r.Landlock >= 3 && r.Mounts && r.NoNewPrivs }

// Full says whether everything a Profile can ask for is enforced here.
func (r Report) Full() bool {
	return r.Landlock >= 4 && r.Seccomp && r.NoNewPrivs && r.Mounts
}

// ToolsEnforced says whether a tool that may only read its project is held to it.
func (r Report) ToolsEnforced() bool { return r.Landlock >= 3 && r.Seccomp && r.NoNewPrivs }

// ErrUnsupported says that this system has no confinement at all.
var ErrUnsupported = errors.New("this system can't confine processes")

// Encode and Decode carry a Profile to the process that enters it.
func (p Profile) Encode() string {
	b, err := json.Marshal(p)
	if err != nil {
		return "{}" // strings and numbers always encode
	}
	return string(b)
}

// Decode reads what Encode wrote.
func Decode(s string) (Profile, error) {
	var p Profile
	err := json.Unmarshal([]byte(s), &p)
	return p, err
}

// Prepare lets cmd be born in the name spaces that the profile needs. It changes cmd's
// SysProcAttr and nothing else; where the machine can't it leaves cmd as it is.
func Prepare(cmd *exec.Cmd, p Profile) { prepare(cmd, p) }

// needsMounts says whether a mount name space is wanted.
func (p Profile) needsMounts() bool { return len(p.Protect)+len(p.Hide)+len(p.Pin) > 0 }

func unique(list []string) []string {
	out := slices.Clone(list)
	slices.Sort(out)
	return slices.Compact(out)
}
