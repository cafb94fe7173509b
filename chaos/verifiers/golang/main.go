// A service that embeds the Go verifier, reduced to its verdicts: for each question on a line of stdin it writes the
// status that its guard would answer. The variables that `platform-auth init` writes configure it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"os"
	"sync"

	platformauth "platform-auth.example/clients/go"
)

type question struct {
	ID      int                               `json:"id"`
	Door    platformauth.Door                 `json:"door"`
	Headers map[string]string                 `json:"headers"`
	Member  *struct{ Household, Role string } `json:"member"`
}

type answer struct {
	ID     int    `json:"id"`
	Status int    `json:"status"`
	Code   string `json:"code"`
}

func verify(ctx context.Context, auth *platformauth.Verifier, q question) error {
	headers := http.Header{}
	for name, value := range q.Headers {
		headers.Set(name, value)
	}
	var err error
	switch {
	case q.Door == platformauth.DoorApp:
		_, err = auth.VerifyApp(ctx, headers, platformauth.Scope(headers.Get("X-Platform-Scope")))
	case q.Door == platformauth.DoorNode:
		_, err = auth.VerifyNode(ctx, headers)
	case q.Member == nil:
		_, err = auth.VerifyUser(ctx, headers)
	case q.Member.Role == "admin":
		_, err = auth.VerifyMember(ctx, headers, q.Member.Household, platformauth.AsAdmin())
	default:
		_, err = auth.VerifyMember(ctx, headers, q.Member.Household)
	}
	return err
}

func main() {
	ctx := context.Background()
	auth, err := platformauth.FromEnvironment(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if len(os.Args) > 1 {
		consume(ctx, auth, os.Args[1])
	}
	var writing sync.Mutex
	output := json.NewEncoder(os.Stdout)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var q question
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			log.Fatal(err)
		}
		go func() {
			answered := answer{ID: q.ID, Status: http.StatusOK}
			var refusal *platformauth.Error
			if err := verify(ctx, auth, q); errors.As(err, &refusal) {
				answered.Status, answered.Code = refusal.Status, refusal.Code
			} else if err != nil {
				answered.Status, answered.Code = http.StatusInternalServerError, err.Error()
			}
			writing.Lock()
			defer writing.Unlock()
			_ = output.Encode(answered)
		}()
	}
	_ = auth.Close(ctx)
}
