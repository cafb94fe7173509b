package platformauthgrpc_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	platformauth "platform-auth.example/clients/go"
	"platform-auth.example/clients/go/platformauthgrpc"
	"platform-auth.example/clients/go/platformauthtest"
)

const (
	check = grpc_health_v1.Health_Check_FullMethodName
	watch = grpc_health_v1.Health_Watch_FullMethodName
)

// healthServer says who called.
type healthServer struct {
	grpc_health_v1.UnimplementedHealthServer
	caller func(context.Context)
}

func (h healthServer) Check(
	ctx context.Context, _ *grpc_health_v1.HealthCheckRequest,
) (*grpc_health_v1.HealthCheckResponse, error) {
	h.caller(ctx)
	return &grpc_health_v1.HealthCheckResponse{}, nil
}

func (h healthServer) Watch(
	_ *grpc_health_v1.HealthCheckRequest, stream grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse],
) error {
	h.caller(stream.Context())
	return nil
}

func start(
	t *testing.T, auth *platformauth.Verifier, rules platformauthgrpc.Rules, caller func(context.Context),
) grpc_health_v1.HealthClient {
	t.Helper()
	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer(
		grpc.UnaryInterceptor(platformauthgrpc.Unary(auth, rules)),
		grpc.StreamInterceptor(platformauthgrpc.Stream(auth, rules)),
	)
	grpc_health_v1.RegisterHealthServer(server, healthServer{caller: caller})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	connection, err := grpc.NewClient("passthrough:///test", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return grpc_health_v1.NewHealthClient(connection)
}

func present(ctx context.Context, header http.Header) context.Context {
	for name, values := range header {
		ctx = metadata.AppendToOutgoingContext(ctx, strings.ToLower(name), values[0])
	}
	return ctx
}

func expectCode(t *testing.T, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("%v instead of %v: %v", got, want, err)
	}
}

func TestCallsAreAdmittedByTheirRules(t *testing.T) {
	service := platformauthtest.NewService()
	auth := service.Verifier(t, "recipes")
	rules := platformauthgrpc.Rules{check: platformauthgrpc.User(), watch: platformauthgrpc.App(platformauth.Scope("read"))}
	var user *platformauth.User
	var app *platformauth.App
	client := start(t, auth, rules, func(ctx context.Context) {
		user, app = platformauth.UserFrom(ctx), platformauth.AppFrom(ctx)
	})
	alice := service.IssueUser(platformauthtest.User{Email: "alice@example.org"})

	_, err := client.Check(present(t.Context(), alice.Header), &grpc_health_v1.HealthCheckRequest{})
	expectCode(t, err, codes.OK)
	if user == nil || user.Email != "alice@example.org" {
		t.Errorf("the caller is %v", user)
	}
	_, err = client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	expectCode(t, err, codes.Unauthenticated)

	for _, given := range []struct {
		scope string
		want  codes.Code
	}{{"read", codes.OK}, {"write", codes.PermissionDenied}} {
		meals := service.IssueApp(platformauthtest.App{Caller: "meals", Target: "recipes", Scopes: []string{given.scope}})
		stream, err := client.Watch(present(t.Context(), meals.Header), &grpc_health_v1.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = stream.Recv()
		if given.want == codes.OK {
			if app == nil || app.Caller != "meals" {
				t.Errorf("the caller is %v", app)
			}
			continue
		}
		expectCode(t, err, given.want)
	}
	service.SetAvailable(false)
	_, err = client.Check(present(t.Context(), alice.Header), &grpc_health_v1.HealthCheckRequest{})
	expectCode(t, err, codes.Unavailable)
}

func TestACallWithoutARuleIsRefused(t *testing.T) {
	service := platformauthtest.NewService()
	auth := service.Verifier(t, "recipes")
	rules := platformauthgrpc.Rules{watch: platformauthgrpc.Public()}
	client := start(t, auth, rules, func(context.Context) {})
	_, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	expectCode(t, err, codes.PermissionDenied)
}
