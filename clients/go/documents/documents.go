// Package documents declares the names that the code of the documents uses without declaring them. run-tests.ts appends
// that code, and compiles it.
package documents

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v4"
	"google.golang.org/grpc"

	platformauth "platform-auth.example/clients/go"
	"platform-auth.example/clients/go/platformauthgrpc"
	"platform-auth.example/clients/go/platformauthtest"
)

var (
	auth        *platformauth.Verifier
	householdOf func(*http.Request) string
	onEvent     func(context.Context, platformauth.Event) error
	onReset     func(context.Context) error
	_           *platformauthtest.Service

	ctx        context.Context
	err        = errors.New("refused")
	headers    http.Header
	mux        *http.ServeMux
	r, request *http.Request
	recipes    http.Handler
	t          *testing.T

	e      *echo.Echo
	list   echo.HandlerFunc
	router *gin.Engine
	show   gin.HandlerFunc
	rules  platformauthgrpc.Rules
	_      *grpc.Server
)
