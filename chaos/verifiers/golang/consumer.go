package main

import (
	"context"
	"encoding/json"
	"errors"
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

type toldEvent struct {
	ID      string               `json:"id"`
	Type    string               `json:"type"`
	Time    time.Time            `json:"time"`
	Subject platformauth.Subject `json:"subject"`
	Data    json.RawMessage      `json:"data"`
}

type toldReset struct {
	Reset int64 `json:"reset"`
}

// consume does what consumer.ts does, with the Go verifier.
func consume(ctx context.Context, auth *platformauth.Verifier, path string) {
	ledger, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		log.Fatal(err)
	}
	entries := json.NewEncoder(ledger)
	act := func(_ context.Context, event platformauth.Event) error {
		maybeStop()
		if rand.Float64() < stopProbability {
			return errNotActedOn
		}
		err := entries.Encode(toldEvent(event))
		maybeStop()
		return err
	}
	noteReset := func(context.Context) error {
		return entries.Encode(toldReset{time.Now().UnixMilli()})
	}
	log.Fatal(auth.Events(ctx, act, noteReset))
}
