package documents

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v4"

	platformauth "platform-auth.example/clients/go"
	"platform-auth.example/clients/go/platformauthtest"
)

func TestGuardsOfFrameworks(t *testing.T) {
	gin.SetMode(gin.ReleaseMode)
	frameworks := map[string]func(auth *platformauth.Verifier, isCalledBy func(*platformauth.User)) http.Handler{
		"echo": func(auth *platformauth.Verifier, isCalledBy func(*platformauth.User)) http.Handler {
			e := echo.New()
			e.GET("/recipes", func(c echo.Context) error {
				isCalledBy(platformauth.UserFrom(c.Request().Context()))
				return c.NoContent(http.StatusNoContent)
			}, echo.WrapMiddleware(auth.RequireUser()))
			return e
		},
		"gin": func(auth *platformauth.Verifier, isCalledBy func(*platformauth.User)) http.Handler {
			router := gin.New()
			router.GET("/recipes", ginGuard(auth.RequireUser()), func(c *gin.Context) {
				isCalledBy(platformauth.UserFrom(c.Request.Context()))
				c.Status(http.StatusNoContent)
			})
			return router
		},
	}
	for name, newHandler := range frameworks {
		t.Run(name, func(t *testing.T) {
			service := platformauthtest.NewService()
			alice := service.IssueUser(platformauthtest.User{Email: "alice@example.org"})
			var callers []*platformauth.User
			handler := newHandler(service.Verifier(t, "recipes"), func(user *platformauth.User) {
				callers = append(callers, user)
			})
			ask := func() *httptest.ResponseRecorder {
				request := httptest.NewRequest(http.MethodGet, "/recipes", nil)
				request.Header = alice.Header
				recorder := httptest.NewRecorder()
				handler.ServeHTTP(recorder, request)
				return recorder
			}
			if answered := ask(); answered.Code != http.StatusNoContent {
				t.Errorf("status %d for a user", answered.Code)
			}
			service.Revoke(alice)
			refused := ask()
			if refused.Code != http.StatusUnauthorized {
				t.Errorf("status %d after the revocation", refused.Code)
			}
			if kind := refused.Header().Get("Content-Type"); kind != "application/problem+json" {
				t.Errorf("refused with %q", kind)
			}
			if len(callers) != 1 || callers[0] == nil || callers[0].Email != "alice@example.org" {
				t.Errorf("the handler was called by %v", callers)
			}
		})
	}
}
