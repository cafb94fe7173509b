// Package platformauthgrpc guards gRPC servers by credentials of the platform, which a call presents as metadata under
// the names of the headers: authorization, x-api-key, x-platform-app-id and x-platform-app-key.
//
//	server := grpc.NewServer(
//		grpc.UnaryInterceptor(platformauthgrpc.Unary(auth, rules)),
//		grpc.StreamInterceptor(platformauthgrpc.Stream(auth, rules)),
//	)
//
// A call of a method without a rule is refused. platformauth.UserFrom, NodeFrom and AppFrom return the caller.
package platformauthgrpc

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	platformauth "platform-auth.example/clients/go"
)

// A Rule says who may make a call.
type Rule func(context.Context, *platformauth.Verifier, platformauth.Headers) (context.Context, error)

// Rules have a rule for each full method, such as "/recipes.Recipes/List".
type Rules map[string]Rule

// App admits calls of other services.
func App(demands ...platformauth.Demand) Rule {
	return func(ctx context.Context, auth *platformauth.Verifier, headers platformauth.Headers) (context.Context, error) {
		app, err := auth.VerifyApp(ctx, headers, demands...)
		return platformauth.WithApp(ctx, app), err
	}
}

// Node admits calls of nodes.
func Node() Rule {
	return func(ctx context.Context, auth *platformauth.Verifier, headers platformauth.Headers) (context.Context, error) {
		node, err := auth.VerifyNode(ctx, headers)
		return platformauth.WithNode(ctx, node), err
	}
}

// User admits calls of users, and with platformauth.AcceptDelegated those of services on behalf of users.
func User(demands ...platformauth.Demand) Rule {
	return func(ctx context.Context, auth *platformauth.Verifier, headers platformauth.Headers) (context.Context, error) {
		user, err := auth.VerifyUser(ctx, headers, demands...)
		return platformauth.WithUser(ctx, user), err
	}
}

// Public admits every call.
func Public() Rule {
	return func(ctx context.Context, _ *platformauth.Verifier, _ platformauth.Headers) (context.Context, error) {
		return ctx, nil
	}
}

// Unary guards calls of one request and one response.
func Unary(auth *platformauth.Verifier, rules Rules) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		ctx, err := rules.admit(ctx, auth, info.FullMethod)
		if err != nil {
			return nil, err
		}
		return handle(ctx, request)
	}
}

// Stream guards streams. A stream goes on after its credential has ended: use platformauth.Verifier.WithCredential for
// one that must not.
func Stream(auth *platformauth.Verifier, rules Rules) grpc.StreamServerInterceptor {
	return func(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		ctx, err := rules.admit(stream.Context(), auth, info.FullMethod)
		if err != nil {
			return err
		}
		return handle(server, guardedStream{stream, ctx})
	}
}

type guardedStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s guardedStream) Context() context.Context { return s.ctx }

func (r Rules) admit(ctx context.Context, auth *platformauth.Verifier, method string) (context.Context, error) {
	rule, ok := r[method]
	if !ok {
		return nil, status.Error(codes.PermissionDenied, "no rule admits calls of this method")
	}
	verifying := ctx
	if from, ok := peer.FromContext(ctx); ok {
		verifying = platformauth.WithRemoteAddr(ctx, from.Addr.String())
	}
	values, _ := metadata.FromIncomingContext(ctx)
	admitted, err := rule(verifying, auth, headers{values})
	if err != nil {
		return nil, toStatus(err)
	}
	return admitted, nil
}

// headers are the metadata of a call.
type headers struct{ metadata.MD }

// Values finds a header by its name in any case.
func (h headers) Values(name string) []string { return h.Get(name) }

// toStatus keeps a verdict apart from an outage: Unavailable tells the caller to keep its credential and try again.
func toStatus(err error) error {
	var refusal *platformauth.Error
	code := codes.Unavailable
	switch {
	case !errors.As(err, &refusal) || errors.Is(err, platformauth.ErrUnavailable):
		return status.Error(code, "the authentication service cannot be asked")
	case errors.Is(err, platformauth.ErrNotMember):
		code = codes.NotFound
	case errors.Is(err, platformauth.ErrMissingScope), errors.Is(err, platformauth.ErrMissingRole):
		code = codes.PermissionDenied
	default:
		code = codes.Unauthenticated
	}
	return status.Error(code, refusal.Code)
}
