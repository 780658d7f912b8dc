// Package wirev1 is version 1 of the protocol between lj and tool processes: the
// messages, the service and the constants of the handshake.
//
// It owns what goes over the wire and nothing else. It does not know how processes are
// started (plugins/host), how a tool is written (plugins/sdk) or what a tool does. The
// generated code only grows; docs/plugin-protocol.md says by which rule.
//
// A Go program that serves the protocol with hashicorp/go-plugin itself registers its
// implementation so:
//
//	func (p *tool) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
//		wirev1.RegisterPluginServer(s, p)
//		return nil
//	}
package wirev1

//go:generate protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative wire.proto

// The handshake of hashicorp/go-plugin as lj uses it.
const (
	// Version is the version of this protocol, in the handshake line and in
	// DescribeReply.
	Version = 1
	// CookieKey and CookieValue tell a program that a host started it. They are no
	// secret.
	CookieKey   = "LJ_PLUGIN_COOKIE"
	CookieValue = "2f1d3c0a-lj-tool"
	// Name is the name under which the service is dispensed.
	Name = "tool"
)

// The environment that the host gives to a tool process, beside what go-plugin sets.
const (
	// EnvSecret holds a random text that each request of the host repeats in the metadata
	// key SecretHeader. A process that was given one answers no request without it.
	EnvSecret = "LJ_PLUGIN_SECRET"
	// EnvLifeline holds the number of an inherited file descriptor, the read end of a
	// pipe that nobody writes to. End of file on it means that the host is gone.
	EnvLifeline = "LJ_PLUGIN_LIFELINE"
	// EnvRun holds a text that is unique to the host and process. Descendants inherit it,
	// so that what a process leaves behind can be recognised.
	EnvRun = "LJ_PLUGIN_RUN"

	// SecretHeader is the metadata key of the secret.
	SecretHeader = "lj-secret"
)
