package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"time"

	platformauth "platform-auth.example/clients/go"
)

const (
	stopCode        = 3
	stopProbability = 1.0 / 300
)

var errNotActedOn = errors.New("this event was not acted on")

func maybeStop() {
	if rand.Float64() < stopProbability {
		os.Exit(stopCode)
	}
}

// consume does what consumer.ts does, with the Go verifier.
func consume(ctx context.Context, auth *platformauth.Verifier, path string) {
	ledger, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		log.Fatal(err)
	}
	act := func(_ context.Context, event platformauth.Event) error {
		maybeStop()
		if rand.Float64() < stopProbability {
			return errNotActedOn
		}
		_, err := fmt.Fprintf(ledger, "%s %s\n", event.ID, event.Subject.ID)
		maybeStop()
		return err
	}
	noteReset := func(context.Context) error {
		_, err := fmt.Fprintf(ledger, "reset %d\n", time.Now().UnixMilli())
		return err
	}
	log.Fatal(auth.Events(ctx, act, noteReset))
}
