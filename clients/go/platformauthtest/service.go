// Package platformauthtest is an authentication service in memory, for the tests of a service that embeds a verifier:
// it issues credentials and judges them, in the process or over HTTP.
//
//	service := platformauthtest.NewService()
//	auth := service.Verifier(t, "recipes")
//	alice := service.IssueUser(platformauthtest.User{Email: "alice@example.org"})
//	request.Header = alice.Header
//	service.Revoke(alice)
package platformauthtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	platformauth "platform-auth.example/clients/go"
)

// A Service answers the questions of verifiers. It grants no lease, so nothing is remembered, and a revoked credential
// is refused at once.
type Service struct {
	mu            sync.Mutex
	isUnavailable bool
	issued        map[string]issued
	households    map[string][]Membership
}

type issued struct {
	digest [sha256.Size]byte
	body   map[string]any
}

// NewService makes a service without credentials.
func NewService() *Service {
	return &Service{issued: map[string]issued{}, households: map[string][]Membership{}}
}

// A Credential of a test is the headers that present it, and the ids of the caller.
type Credential struct {
	Header http.Header
	// ID is that of the app, the node or the user.
	ID string

	name string
}

// An App is the key of a calling service. Without Scopes it is not restricted.
type App struct {
	Caller string
	// Target is the name of the service under test. A verifier refuses a key for another one, or for none.
	Target string
	Scopes []string
}

// A Node is the key of a device. Without a HouseholdID it has a household of its own.
type Node struct{ HouseholdID string }

// A User is an access token, of a session of its own. Without an ID it is that of a new user.
type User struct {
	ID         string
	Email      string
	AMR        []string
	Households []Membership
}

// A Delegated is an access token with which another service calls on behalf of a user (RFC 8693).
type Delegated struct {
	UserID string
	Caller string
	// Target is the name of the service under test.
	Target string
	Scopes []string
}

// A Membership is a household of a user.
type Membership struct {
	ID   string            `json:"id"`
	Role platformauth.Role `json:"role"`
}

// IssueApp issues the key of a calling service.
func (s *Service) IssueApp(app App) Credential {
	id, key := newID(), "test_app_"+rand.Text()
	body := map[string]any{"app_id": id, "caller": orDefault(app.Caller, "caller"), "target": app.Target}
	if app.Scopes != nil {
		body["scopes"] = app.Scopes
	}
	header := http.Header{}
	header.Set("X-Platform-App-Id", id)
	header.Set("X-Platform-App-Key", key)
	return s.issue(Credential{Header: header, ID: id, name: "app " + id}, key, body)
}

// IssueNode issues the key of a node.
func (s *Service) IssueNode(node Node) Credential {
	id, key := newID(), "test_node_"+rand.Text()
	body := map[string]any{"node_id": id, "household_id": orDefault(node.HouseholdID, newID())}
	header := http.Header{}
	header.Set("X-API-Key", id+":"+key)
	return s.issue(Credential{Header: header, ID: id, name: "node " + id}, key, body)
}

// IssueUser issues an access token. Households replace those that the user has; nil leaves them.
func (s *Service) IssueUser(user User) Credential {
	id, session := strings.ToLower(orDefault(user.ID, newID())), newID()
	email := orDefault(user.Email, "user@example.org")
	amr := user.AMR
	if amr == nil {
		amr = []string{"pwd"}
	}
	token := strings.Join([]string{
		encode(map[string]any{"alg": "HS256", "typ": "JWT"}), encode(map[string]any{"sub": id, "sid": session}), rand.Text(),
	}, ".")
	if user.Households != nil {
		s.setHouseholds(id, user.Households)
	}
	header := http.Header{}
	header.Set("Authorization", "Bearer "+token)
	body := map[string]any{"user_id": id, "session_id": session, "email": email, "amr": amr}
	return s.issue(Credential{Header: header, ID: id, name: "session " + session}, token, body)
}

// IssueDelegated issues a token of a service on behalf of a user, for a session and a pair of its own.
func (s *Service) IssueDelegated(delegated Delegated) Credential {
	id, session := strings.ToLower(orDefault(delegated.UserID, newID())), newID()
	caller := orDefault(delegated.Caller, "caller")
	act := map[string]any{"sub": caller, "client_id": newID()}
	token := strings.Join([]string{
		encode(map[string]any{"alg": "ES256", "typ": "at+jwt"}),
		encode(map[string]any{"sub": id, "sid": session, "act": act}), rand.Text(),
	}, ".")
	header := http.Header{}
	header.Set("Authorization", "Bearer "+token)
	return s.issue(Credential{Header: header, ID: id, name: "session " + session}, token, map[string]any{
		"user_id": id, "session_id": session, "amr": []string{"pwd"}, "caller": caller, "act": act,
		"scopes": append([]string{}, delegated.Scopes...), "target": delegated.Target,
	})
}

// SetHouseholds lets the user live in these households, and in no other.
func (s *Service) SetHouseholds(user Credential, households ...Membership) {
	s.setHouseholds(user.ID, households)
}

func (s *Service) setHouseholds(userID string, households []Membership) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.households[userID] = households
}

// Revoke revokes a key, or ends the session of a token.
func (s *Service) Revoke(credential Credential) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.issued, credential.name)
}

// SetAvailable switches an outage on (false) and off: during it every verification fails with
// platformauth.ErrUnavailable.
func (s *Service) SetAvailable(isAvailable bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isUnavailable = !isAvailable
}

// Verifier returns a verifier of this service in the same process, without a network, for the service of this name.
// It is closed at the end of the test.
func (s *Service) Verifier(t testing.TB, serviceName string, options ...platformauth.Option) *platformauth.Verifier {
	t.Helper()
	withTransport := []platformauth.Option{platformauth.WithTransport(s.Transport())}
	return newVerifier(t, "http://auth.test", serviceName, append(withTransport, options...))
}

// Transport is a network that ends in this process, for platformauth.WithTransport.
func (s *Service) Transport() http.RoundTripper { return inProcess{s} }

// Start serves over HTTP, until the end of the test, and returns a verifier that asks there.
func (s *Service) Start(t testing.TB, serviceName string, options ...platformauth.Option) *platformauth.Verifier {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return newVerifier(t, server.URL, serviceName, options)
}

func newVerifier(t testing.TB, url, serviceName string, options []platformauth.Option) *platformauth.Verifier {
	t.Helper()
	config := platformauth.Config{URL: url, AppID: newID(), AppKey: "pa_app_test", ServiceName: serviceName}
	auth, err := platformauth.New(t.Context(), config, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = auth.Close(context.Background()) })
	return auth
}

func (s *Service) issue(credential Credential, secret string, body map[string]any) Credential {
	body["valid"] = true
	s.mu.Lock()
	defer s.mu.Unlock()
	s.issued[credential.name] = issued{digest: sha256.Sum256([]byte(secret)), body: body}
	return credential
}

// ServeHTTP answers the questions of a verifier.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isUnavailable {
		write(w, http.StatusServiceUnavailable, map[string]any{"code": "unavailable"})
		return
	}
	switch r.URL.Path {
	case "/internal/changes":
		write(w, http.StatusOK, map[string]any{
			"cursor": "test", "reset": true, "lease_ms": 0, "fresh_for_ms": 0, "changes": []any{},
		})
	case "/internal/validate-app":
		var asked struct{ Target string }
		_ = json.NewDecoder(r.Body).Decode(&asked)
		name := "app " + strings.ToLower(r.Header.Get("X-Platform-App-Id"))
		body, ok := s.find(name, r.Header.Get("X-Platform-App-Key"))
		answer(w, body, ok && body["target"] == asked.Target, "invalid_app_credentials")
	case "/internal/validate-node":
		id, key, _ := strings.Cut(r.Header.Get("X-API-Key"), ":")
		body, ok := s.find("node "+strings.ToLower(id), key)
		answer(w, body, ok, "invalid_node_credentials")
	case "/internal/validate-user":
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		body, ok := s.find("session "+readSession(token), token)
		if target, isDelegated := body["target"]; isDelegated {
			ok = ok && r.Header.Get("X-Platform-Target") == target
		} else if ok {
			body["households"] = append([]Membership{}, s.households[fmt.Sprint(body["user_id"])]...)
		}
		answer(w, body, ok, "invalid_access_token")
	default:
		write(w, http.StatusNotFound, map[string]any{"code": "not_found"})
	}
}

func (s *Service) find(name, secret string) (map[string]any, bool) {
	known, ok := s.issued[name]
	digest := sha256.Sum256([]byte(secret))
	return known.body, ok && subtle.ConstantTimeCompare(known.digest[:], digest[:]) == 1
}

func answer(w http.ResponseWriter, body map[string]any, isValid bool, refusal string) {
	if !isValid {
		write(w, http.StatusUnauthorized, map[string]any{"code": refusal})
		return
	}
	w.Header().Set("X-Platform-Remember", "no")
	w.Header().Set("X-Platform-Fresh-For-Ms", "60000")
	write(w, http.StatusOK, body)
}

func write(w http.ResponseWriter, status int, body map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func readSession(token string) string {
	_, rest, _ := strings.Cut(token, ".")
	payload, _, _ := strings.Cut(rest, ".")
	text, _ := base64.RawURLEncoding.DecodeString(payload)
	var claims struct{ SID string }
	_ = json.Unmarshal(text, &claims)
	return claims.SID
}

type inProcess struct{ service *Service }

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	recorder := httptest.NewRecorder()
	p.service.ServeHTTP(recorder, r)
	response := recorder.Result()
	response.Body = io.NopCloser(bytes.NewReader(recorder.Body.Bytes()))
	return response, nil
}

func encode(value map[string]any) string {
	text, _ := json.Marshal(value)
	return base64.RawURLEncoding.EncodeToString(text)
}

func orDefault(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}

// newID returns a random UUID (RFC 9562, version 4).
func newID() string {
	var id [16]byte
	_, _ = rand.Read(id[:])
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
