// A service that keeps documents of users. Only other services call it, on behalf of a user. Its environment is the file
// that `init` wrote.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	platformauth "platform-auth.example/clients/go"
)

const timeout = 5 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	auth, err := platformauth.FromEnvironment(ctx)
	if err != nil {
		log.Fatal(err)
	}
	requireService := auth.RequireUser(platformauth.OnlyDelegated(), platformauth.Scope("documents:read"))
	mux := http.NewServeMux()
	mux.Handle("GET /photos/latest", requireService(http.HandlerFunc(sendLatestPhoto)))
	server := &http.Server{Addr: "127.0.0.1:" + os.Getenv("PORT"), Handler: mux, ReadHeaderTimeout: timeout}
	go func() {
		<-ctx.Done()
		ending, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		_ = server.Shutdown(ending)
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
	_ = auth.Close(context.Background())
}

func sendLatestPhoto(w http.ResponseWriter, r *http.Request) {
	user := platformauth.UserFrom(r.Context())
	delegation, _ := user.Delegation()
	var services []string
	for _, link := range delegation.Chain() {
		services = append(services, link.Service)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"owner": user.ID, "photo": "pancakes", "asked_by": services})
}
