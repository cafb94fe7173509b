//go:build unix

package platformauth

import (
	"context"
	"crypto/sha256"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
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
	if _, err := auth.VerifyNode(b.Context(), headers); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	reportCPU(b)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := auth.VerifyNode(context.Background(), headers); err != nil {
				b.Error(err)
			}
		}
	})
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

const nodeKeyOfBenchmark = "pa_node_NNNnnnNNNnnnNNNnnnNNNnnnNNNnnnNNNnnnNNNnnn1"

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
	id, _, _ := strings.Cut(r.headers[nodeKeyHeader], ":")
	body := `{"valid":true,"node_id":"` + id + `","household_id":"01985f4e-7c3a-7b52-9d1e-000000000d01"}`
	return answer{status: http.StatusOK, headers: headers, body: []byte(body)}, nil
}
