//go:build service

package platformauth_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	platformauth "platform-auth.example/clients/go"
)

// What `npm run test:go` has made in a running service.
type platform struct {
	URL      string
	AdminKey string `json:"admin_key"`
	Email    string
	Password string
	Node     struct {
		NodeID string `json:"node_id"`
		APIKey string `json:"api_key"`
	}
	App struct {
		AppID  string `json:"app_id"`
		AppKey string `json:"app_key"`
	}
}

func readPlatform(t *testing.T) platform {
	t.Helper()
	var p platform
	if err := json.Unmarshal([]byte(os.Getenv("TEST_PLATFORM")), &p); err != nil {
		t.Fatalf("TEST_PLATFORM: %v", err)
	}
	return p
}

func (p platform) call(t *testing.T, method, path string, headers http.Header, body any) map[string]any {
	t.Helper()
	var text []byte
	headers = headers.Clone()
	if body != nil {
		text, _ = json.Marshal(body)
		headers.Set("Content-Type", "application/json")
	}
	request, err := http.NewRequestWithContext(t.Context(), method, p.URL+path, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = headers
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusBadRequest {
		t.Fatalf("%s %s: %s", method, path, response.Status)
	}
	var answered map[string]any
	_ = json.NewDecoder(response.Body).Decode(&answered)
	return answered
}

// cut is a network that a test can cut.
type cut struct{ isCut atomic.Bool }

func (c *cut) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.isCut.Load() {
		return nil, errors.New("cut")
	}
	return http.DefaultTransport.RoundTrip(r)
}

func TestBeforeTheService(t *testing.T) {
	p := readPlatform(t)
	network := &cut{}
	auth, err := platformauth.FromEnvironment(t.Context(), platformauth.WithTransport(network))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = auth.Close(t.Context()) })
	node := http.Header{"X-Api-Key": {p.Node.NodeID + ":" + p.Node.APIKey}}
	app := http.Header{"X-Platform-App-Id": {p.App.AppID}, "X-Platform-App-Key": {p.App.AppKey}}
	session := p.call(t, http.MethodPost, "/api/v0/auth/login", http.Header{},
		map[string]string{"email": p.Email, "password": p.Password})
	user := http.Header{"Authorization": {"Bearer " + session["access_token"].(string)}}
	admin := http.Header{"X-Admin-Key": {p.AdminKey}}
	verifyNode := func() error { _, err := auth.VerifyNode(t.Context(), node); return err }
	verifyApp := func() error { _, err := auth.VerifyApp(t.Context(), app); return err }
	verifyUser := func() error { _, err := auth.VerifyUser(t.Context(), user); return err }

	for name, verify := range map[string]func() error{"node": verifyNode, "app": verifyApp, "user": verifyUser} {
		if err := verify(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	found, err := auth.VerifyUser(t.Context(), user)
	if _, isKnown := found.Households(); err != nil || found.Email != p.Email || !isKnown {
		t.Errorf("the user is %+v: %v", found, err)
	}

	// Cut off, memory answers while the lease lasts, and nothing does afterwards.
	network.isCut.Store(true)
	if err := verifyNode(); err != nil {
		t.Errorf("from memory: %v", err)
	}
	waitFor(t, func() bool { return errors.Is(verifyNode(), platformauth.ErrUnavailable) })
	network.isCut.Store(false)
	waitFor(t, func() bool { return verifyNode() == nil && verifyApp() == nil && verifyUser() == nil })

	// When the call has answered, the credential is refused.
	p.call(t, http.MethodDelete, "/api/v0/admin/nodes/"+p.Node.NodeID, admin, nil)
	if err := verifyNode(); !errors.Is(err, platformauth.ErrRefused) {
		t.Errorf("a revoked node: %v", err)
	}
	p.call(t, http.MethodDelete, "/api/v0/admin/app-credentials/"+p.App.AppID, admin, nil)
	if err := verifyApp(); !errors.Is(err, platformauth.ErrRefused) {
		t.Errorf("a revoked app credential: %v", err)
	}
	ended, stop, err := auth.WithCredential(t.Context(), platformauth.DoorUser, user)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	p.call(t, http.MethodPost, "/api/v0/auth/logout", user, map[string]any{"refresh_token": session["refresh_token"]})
	if err := verifyUser(); !errors.Is(err, platformauth.ErrRefused) {
		t.Errorf("after the logout: %v", err)
	}
	waitFor(t, func() bool { return ended.Err() != nil })
}

func waitFor(t *testing.T, isTrue func() bool) {
	t.Helper()
	for range 1000 {
		if isTrue() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("it did not become true within 10 s")
}
