package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"path/filepath"
	"time"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/seal"
)

// oncewardStore is our journal, through its public interface.
type oncewardStore struct {
	journal machine.Store
	session machine.Session
	keys    keys
}

func openOnceward(k keys) func(string) (store, error) {
	return func(folder string) (store, error) {
		return openJournal(folder, k, nil)
	}
}

// openSealed opens a journal with a key that is the same each time.
func openSealed(folder string) (store, error) {
	secret := sha256.Sum256([]byte("benchmark"))
	ring, err := seal.NewRing(seal.Key{ID: "k1", Secret: secret[:]})
	if err != nil {
		return nil, err
	}
	return openJournal(folder, generated, ring)
}

func openJournal(folder string, k keys, ring *seal.Ring) (*oncewardStore, error) {
	j, err := sqlite.Open(filepath.Join(folder, "journal.db"), sqlite.Options{Seal: ring})
	if err != nil {
		return nil, err
	}
	s, err := j.Join(context.Background())
	if err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return &oncewardStore{journal: j, session: s, keys: k}, nil
}

// begin records the intent.
func (s *oncewardStore) begin(ctx context.Context, key string) (machine.Result, error) {
	naming := journal.Generated
	if s.keys == carried {
		naming = journal.Carried
	}
	return s.journal.Apply(ctx, machine.Event{
		Kind: machine.EventBegin, Ref: journal.Ref{ID: key}, New: naming == journal.Generated, At: time.Now(), Session: s.session.ID(),
		Intent: &machine.Intent{
			Naming: naming, Provider: "stripe", Endpoint: "POST /v1/", Key: key, KeyCarried: naming == journal.Carried,
			Fingerprint: string(intentHead[:178]),
			Terms:       journal.Terms{Remembers: providers.Everything, Retention: 24 * time.Hour, Guard: true},
			Request: journal.Request{
				Method: http.MethodPost, URL: "https://api.stripe.com/v1/charges",
				Header:          http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Stripe-Version": {"2025-03-31.basil"}},
				Body:            intentBody,
				WithheldHeaders: []string{"Authorization"},
			},
		},
	})
}

func (s *oncewardStore) operation(ctx context.Context, key string) error {
	begun, err := s.begin(ctx, key)
	if err != nil {
		return err
	}
	_, err = s.journal.Apply(ctx, machine.Event{
		Kind: machine.EventComplete, Ref: begun.Operation.Ref, Handle: begun.Operation.Handle, At: time.Now(), Session: s.session.ID(),
		Claim: begun.Operation.Claim, Attempts: 1, Delivered: true,
		Answer: &journal.Answer{
			Status: http.StatusOK, Body: answerBody,
			Header: http.Header{"Content-Type": {"application/json"}, "Request-Id": {"req_0123456789abcd"},
				"Stripe-Version": {"2025-03-31.basil"}, "Date": {"Sun, 01 Mar 2026 12:00:00 GMT"}},
		},
	})
	return err
}

func (s *oncewardStore) has(ctx context.Context, key string) (bool, error) {
	op, err := s.journal.Get(ctx, journal.Ref{ID: key})
	if errors.Is(err, journal.ErrNotFound) {
		return false, nil
	}
	return err == nil && op.Answer != nil && len(op.Answer.Body) == len(answerBody), err
}

func (s *oncewardStore) close() error {
	return errors.Join(s.session.End(context.Background()), s.journal.Close())
}
