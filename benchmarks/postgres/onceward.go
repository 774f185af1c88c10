package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/providers"
)

// oncewardStore is our journal, through its public interface.
type oncewardStore struct {
	journal *postgres.Journal
	session machine.Session
	asker   atomic.Int64
}

const deployment = "benchmark"

func prepareOnceward(ctx context.Context, url string) error { return postgres.Migrate(ctx, url, "") }

func openOnceward(ctx context.Context, url string, _ int) (store, error) {
	return openJournal(ctx, url)
}

func openJournal(ctx context.Context, url string) (*oncewardStore, error) {
	j, err := postgres.Open(ctx, url, postgres.Options{Deployment: deployment, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	s, err := j.Join(ctx)
	if err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return &oncewardStore{journal: j, session: s}, nil
}

// begin records the intent.
func (s *oncewardStore) begin(ctx context.Context, key string) (machine.Result, error) {
	return s.journal.Apply(ctx, s.beginning(key))
}

func (s *oncewardStore) beginning(key string) machine.Event {
	return machine.Event{
		Kind: machine.EventBegin, Ref: journal.Ref{ID: key}, New: true, At: s.journal.Now(), Session: s.session.ID(), Asker: s.asker.Add(1),
		Intent: intent(journal.Generated, key),
	}
}

// intent returns a request as our journal keeps it. It has the bytes that every contender keeps.
func intent(naming journal.Naming, key string) *machine.Intent {
	return &machine.Intent{
		Naming: naming, Provider: "stripe", Endpoint: "POST /v1/", Key: key, Fingerprint: string(intentHead[:178]),
		Terms: journal.Terms{Remembers: providers.Everything, Retention: 24 * time.Hour, Guard: true},
		Request: journal.Request{
			Method: http.MethodPost, URL: "https://api.stripe.com/v1/charges",
			Header:          http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Stripe-Version": {"2025-03-31.basil"}},
			Body:            intentBody,
			WithheldHeaders: []string{"Authorization"},
		},
	}
}

// of returns ev for the operation in begun, under the claim: now, in the session, after one attempt.
func (s *oncewardStore) of(begun machine.Result, ev machine.Event) machine.Event {
	ev.Ref, ev.Handle, ev.Claim = begun.Operation.Ref, begun.Operation.Handle, begun.Operation.Claim
	ev.At, ev.Session, ev.Attempts = s.journal.Now(), s.session.ID(), 1
	return ev
}

func (s *oncewardStore) operation(ctx context.Context) error {
	begun, err := s.begin(ctx, newKey())
	if err != nil {
		return err
	}
	return s.complete(ctx, begun)
}

// complete records the answer.
func (s *oncewardStore) complete(ctx context.Context, begun machine.Result) error {
	_, err := s.journal.Apply(ctx, s.of(begun, machine.Event{
		Kind: machine.EventComplete, Delivered: true,
		Answer: &journal.Answer{
			Status: http.StatusOK, Body: answerBody,
			Header: http.Header{"Content-Type": {"application/json"}, "Request-Id": {"req_0123456789abcd"},
				"Stripe-Version": {"2025-03-31.basil"}, "Date": {"Sun, 01 Mar 2026 12:00:00 GMT"}},
		},
	}))
	return err
}

func (s *oncewardStore) has(ctx context.Context) (n int, err error) {
	for _, err := range s.journal.List(ctx, journal.Filter{States: []journal.State{journal.StateCompleted}}) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func (s *oncewardStore) close() error {
	return errors.Join(s.session.End(context.Background()), s.journal.Close())
}
