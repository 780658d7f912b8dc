package cli

import "github.com/lingjiyidong/lj/core"

// The exit statuses of lj. They are part of the command line contract.
const (
	exitOK          = 0
	exitFailed      = 1   // the work failed or met a limit
	exitUsage       = 2   // wrong usage or configuration, unknown id, no server
	exitRefused     = 3   // refused by verification, nothing changed
	exitModel       = 4   // the model server failed
	exitDenied      = 5   // permission
	exitInterrupted = 130 // SIGINT
	exitTerminated  = 143 // SIGTERM
)

// exitStatus is the status for an error's kind.
func exitStatus(k core.Kind) int {
	switch k {
	case "":
		return exitOK
	case core.KindUsage, core.KindConfig, core.KindNotFound:
		return exitUsage
	case core.KindRefused:
		return exitRefused
	case core.KindModel:
		return exitModel
	case core.KindDenied:
		return exitDenied
	case core.KindInterrupted:
		return exitInterrupted
	}
	return exitFailed
}
