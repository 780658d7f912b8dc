// Plain is an ordinary tool: hashicorp/go-plugin and the generated code, no SDK. It is
// the baseline of the benchmarks.
package main

import (
	"context"
	"errors"

	plugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	wirev1 "github.com/lingjiyidong/lj/plugins/wire/v1"
)

type tool struct {
	plugin.NetRPCUnsupportedPlugin
	wirev1.UnimplementedPluginServer
}

func (t *tool) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	wirev1.RegisterPluginServer(s, t)
	return nil
}

func (t *tool) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("this is a tool")
}

func (t *tool) Describe(context.Context, *wirev1.DescribeRequest) (*wirev1.DescribeReply, error) {
	return &wirev1.DescribeReply{ProtocolVersion: wirev1.Version, Tools: []*wirev1.ToolDescription{{
		Name: "echo", Description: "Says a text",
		InputSchema: []byte(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}`),
	}}}, nil
}

func (t *tool) Call(req *wirev1.CallRequest, s grpc.ServerStreamingServer[wirev1.CallEvent]) error {
	return s.Send(&wirev1.CallEvent{Event: &wirev1.CallEvent_Result{Result: &wirev1.Result{Text: string(req.Arguments)}}})
}

func main() {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: plugin.HandshakeConfig{ProtocolVersion: wirev1.Version, MagicCookieKey: wirev1.CookieKey, MagicCookieValue: wirev1.CookieValue},
		Plugins:         plugin.PluginSet{wirev1.Name: &tool{}},
		GRPCServer:      plugin.DefaultGRPCServer,
	})
}
