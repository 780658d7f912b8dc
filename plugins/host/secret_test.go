package host_test

import (
	"context"
	"net"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/lingjiyidong/lj/plugins/host"
	wirev1 "github.com/lingjiyidong/lj/plugins/wire/v1"
)

func TestSecretIsAskedForOnEveryRequest(t *testing.T) {
	h, _ := newHost(t, host.Options{})
	p := bad(h, "kit")
	call(t, p, "echo", `{"text":"x"}`)
	root, _ := rootOf.Load(h)
	socks, _ := filepath.Glob(root.(string) + "/h*/*/s")
	if len(socks) != 1 {
		t.Fatalf("sockets %v", socks)
	}
	conn, err := grpc.NewClient("passthrough:tool", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socks[0])
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := wirev1.NewPluginClient(conn)
	for _, ctx := range []context.Context{
		t.Context(),
		metadata.AppendToOutgoingContext(t.Context(), wirev1.SecretHeader, "guess"),
	} {
		if _, err := c.Describe(ctx, &wirev1.DescribeRequest{}); status.Code(err) != codes.Unauthenticated {
			t.Errorf("describe: %v", err)
		}
		s, err := c.Call(ctx, &wirev1.CallRequest{Tool: "echo", Arguments: []byte(`{"text":"x"}`)})
		if err == nil {
			_, err = s.Recv()
		}
		if status.Code(err) != codes.Unauthenticated {
			t.Errorf("call: %v", err)
		}
	}
	wantText(t, call(t, p, "echo", `{"text":"y"}`), false, "y")
}
