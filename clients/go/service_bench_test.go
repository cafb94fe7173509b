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

// BenchmarkAskedNode asks a running service without a lease each time, about all keys of BENCH_NODES at once on each core.
func BenchmarkAskedNode(b *testing.B) {
	auth, err := FromEnvironment(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = auth.Close(context.Background()) })
	keys := strings.Fields(os.Getenv("BENCH_NODES"))
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
