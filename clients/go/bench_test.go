//go:build unix

package platformauth

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// The bare work that any verifier has to do for a node's key: one SHA-256 and one look-up.
func BenchmarkBareHashAndMap(b *testing.B) {
	presented := "01985f4e-7c3a-7b52-9d1e-000000000b01:" + nodeKeyOfBenchmark
	known := map[[sha256.Size]byte]*Node{sha256.Sum256([]byte(presented)): {ID: "node"}}
	reportCPU(b)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if known[sha256.Sum256([]byte(presented))] == nil {
				b.Error("not found")
			}
		}
	})
}

func BenchmarkRememberedNode(b *testing.B) {
	auth := newRememberingVerifier(b)
	headers := http.Header{}
	headers.Set("X-Api-Key", "01985f4e-7c3a-7b52-9d1e-000000000b01:"+nodeKeyOfBenchmark)
	repeatVerification(b, func() error {
		_, err := auth.VerifyNode(context.Background(), headers)
		return err
	})
}

func BenchmarkRememberedUser(b *testing.B) {
	auth := newRememberingVerifier(b)
	token, _ := signForBenchmark(b)
	headers := http.Header{"Authorization": {"Bearer " + token}}
	repeatVerification(b, func() error {
		_, err := auth.VerifyUser(context.Background(), headers)
		return err
	})
}

// The work of a service that verifies each token itself, with its key at hand.
func BenchmarkES256(b *testing.B) {
	token, key := signForBenchmark(b)
	repeatVerification(b, func() error {
		parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
		if err != nil {
			return err
		}
		var claimed jwt.Claims
		if err := parsed.Claims(key, &claimed); err != nil {
			return err
		}
		return claimed.Validate(jwt.Expected{Issuer: defaultIssuer, Time: time.Now()})
	})
}

// repeatVerification begins to count after the first verification, which asks.
func repeatVerification(b *testing.B, verify func() error) {
	b.Helper()
	if err := verify(); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	reportCPU(b)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := verify(); err != nil {
				b.Error(err)
			}
		}
	})
}

// signForBenchmark returns a token in the form of the service's, and the key that verifies it.
func signForBenchmark(b *testing.B) (string, *ecdsa.PublicKey) {
	b.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, nil)
	if err != nil {
		b.Fatal(err)
	}
	claimed := map[string]any{
		"iss": defaultIssuer, "exp": time.Now().Add(time.Hour).Unix(),
		"sub": userOfBenchmark, "sid": sessionOfBenchmark, "email": "alice@example.org",
	}
	token, err := jwt.Signed(signer).Claims(claimed).Serialize()
	if err != nil {
		b.Fatal(err)
	}
	return token, &key.PublicKey
}

// reportCPU adds the CPU time of the process for one operation, from here to the end of the benchmark.
func reportCPU(b *testing.B) {
	before := readCPU(b)
	b.Cleanup(func() { b.ReportMetric(float64(readCPU(b)-before)/float64(b.N), "cpu-ns/op") })
}

func readCPU(b *testing.B) int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}

const (
	nodeKeyOfBenchmark = "pa_node_NNNnnnNNNnnnNNNnnnNNNnnnNNNnnnNNNnnnNNNnnn1"
	userOfBenchmark    = "01985f4e-7c3a-7b52-9d1e-000000000e01"
	sessionOfBenchmark = "01985f4e-7c3a-7b52-9d1e-000000000e02"
)

// newRememberingVerifier asks a service that lets everything be remembered, over a lease that outlives the benchmark.
func newRememberingVerifier(b *testing.B) *Verifier {
	b.Helper()
	service := &rememberingService{systemRuntime: newSystemRuntime(options{})}
	settings, err := toSettings(Config{
		URL: "http://auth.test", AppID: "01985f4e-7c3a-7b52-9d1e-000000000c01", AppKey: "pa_app_test",
		ServiceName: "recipes",
	}, nil)
	if err != nil {
		b.Fatal(err)
	}
	auth := newVerifier(b.Context(), settings, service)
	b.Cleanup(func() { _ = auth.Close(context.Background()) })
	for !auth.lease.isHeld() {
		time.Sleep(time.Millisecond)
	}
	return auth
}

type rememberingService struct{ *systemRuntime }

func (s *rememberingService) send(_ context.Context, r request) (answer, error) {
	headers := http.Header{}
	if strings.HasSuffix(r.url, changesPath) {
		body := `{"cursor":"1","reset":false,"lease_ms":600000,"fresh_for_ms":600000,"changes":[]}`
		return answer{status: http.StatusOK, headers: headers, body: []byte(body)}, nil
	}
	headers.Set("X-Platform-Remember", "yes")
	headers.Set("X-Platform-Expires-In", "60")
	headers.Set("X-Platform-Fresh-For-Ms", "60000")
	body := fmt.Sprintf(`{"valid":true,"user_id":%q,"session_id":%q,"email":"alice@example.org"}`,
		userOfBenchmark, sessionOfBenchmark)
	if id, _, isNode := strings.Cut(r.headers[nodeKeyHeader], ":"); isNode {
		body = fmt.Sprintf(`{"valid":true,"node_id":%q,"household_id":"01985f4e-7c3a-7b52-9d1e-000000000d01"}`, id)
	}
	return answer{status: http.StatusOK, headers: headers, body: []byte(body)}, nil
}
