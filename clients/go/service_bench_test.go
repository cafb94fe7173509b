//go:build service && unix

package platformauth

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
)

// BenchmarkAskedNode asks a running service each time, because its answers have no lease, about all keys of BENCH_NODES
// at once on each core.
func BenchmarkAskedNode(b *testing.B) {
	auth, err := FromEnvironment(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = auth.Close(context.Background()) })
	keys := strings.Fields(os.Getenv("BENCH_NODES"))
	if len(keys) == 0 {
		b.Fatal("BENCH_NODES is empty")
	}
	var taken atomic.Int64
	b.SetParallelism(len(keys))
	b.ResetTimer()
	reportCPU(b)
	b.RunParallel(func(pb *testing.PB) {
		headers := http.Header{}
		headers.Set(nodeKeyHeader, keys[int(taken.Add(1))%len(keys)])
		for pb.Next() {
			// A busy machine may cause a timeout.
			if _, err := auth.VerifyNode(context.Background(), headers); err != nil && !errors.Is(err, ErrUnavailable) {
				b.Error(err)
			}
		}
	})
}
