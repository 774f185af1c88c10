package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/idempotency"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/server"
)

// database is where payments are booked.
type database struct {
	name string
	open func(ctx context.Context, o options) (all []contender, describe string, end func(), err error)
}

var databases = []database{{"sqlite", openSQLite}, {"postgres", openPostgres}}

// ledger is a database as foreign contenders use the database: each method is a commit.
type ledger interface {
	book(ctx context.Context, payee []byte) error
	// reserve reports whether the key is new, else the answer that finish recorded, or nil.
	reserve(ctx context.Context, key string) (fresh bool, answer []byte, err error)
	finish(ctx context.Context, key string, answer []byte) error
	// get and set are a key-value storage.
	get(ctx context.Context, key string) ([]byte, error)
	set(ctx context.Context, key string, value []byte) error
}

// answerPaid answers a payment that is booked.
func answerPaid(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, paid)
}

// plain books without a key.
func plain(l ledger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = l.book(r.Context(), body)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		answerPaid(w)
	})
}

// naive is what one writes by hand: it reserves the key, books, and records the answer, in a commit each.
func naive(l ledger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Idempotency-Key")
		body, err := io.ReadAll(r.Body)
		var fresh bool
		var answer []byte
		if err == nil {
			fresh, answer, err = l.reserve(r.Context(), key)
		}
		switch {
		case err != nil:
		case !fresh && answer == nil:
			http.Error(w, "it is being served", http.StatusConflict)
			return
		case fresh:
			if err = l.book(r.Context(), body); err == nil {
				err = l.finish(r.Context(), key, []byte(paid))
			}
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		answerPaid(w)
	})
}

// newServer is package server on a journal.
func newServer(ctx context.Context, j machine.Store, begin func(context.Context) (journal.Tx, error)) (*server.Server, error) {
	return server.New(ctx, server.Options{
		Journal: j, Secrets: [][]byte{[]byte("0123456789abcdef")}, Logger: slog.New(slog.DiscardHandler), Begin: begin,
		Caller: func(*http.Request) (server.Caller, error) { return server.Caller{Tenant: "acme"}, nil },
	})
}

// serveAll gives each handler an address, with Fiber's middleware, which has a server of its own.
func serveAll(l ledger, atomic http.Handler) (all []contender, end func(), err error) {
	var servers []*httptest.Server
	serve := func(name string, h http.Handler) contender {
		s := httptest.NewServer(h)
		servers = append(servers, s)
		return contender{name: name, url: s.URL}
	}
	all = []contender{serve("plain", plain(l)), serve("naive, three commits", naive(l)), serve("Atomic", atomic)}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	app := fiber.New()
	app.Use(idempotency.New(idempotency.Config{KeyHeader: "Idempotency-Key", Storage: storage{l}}))
	app.Post("/", func(c fiber.Ctx) error {
		if err := l.book(c, c.Body()); err != nil {
			return err
		}
		c.Set("Content-Type", "application/json")
		return c.Status(fiber.StatusCreated).SendString(paid)
	})
	go func() { _ = app.Listener(listener, fiber.ListenConfig{DisableStartupMessage: true}) }()
	all = append(all,
		contender{name: "Fiber's middleware", url: "http://" + listener.Addr().String() + "/"},
		contender{name: "Atomic, repeated", url: all[2].url, repeat: true},
		contender{name: "Fiber, repeated", url: "http://" + listener.Addr().String() + "/", repeat: true})
	return all, func() {
		for _, s := range servers {
			s.Close()
		}
		_ = app.Shutdown()
	}, nil
}

// storage is a ledger as Fiber's middleware wants it.
type storage struct{ l ledger }

func (s storage) GetWithContext(ctx context.Context, key string) ([]byte, error) {
	return s.l.get(ctx, key)
}
func (s storage) Get(key string) ([]byte, error) { return s.l.get(context.Background(), key) }
func (s storage) SetWithContext(ctx context.Context, key string, value []byte, _ time.Duration) error {
	return s.l.set(ctx, key, value)
}
func (s storage) Set(key string, value []byte, _ time.Duration) error {
	return s.l.set(context.Background(), key, value)
}
func (storage) DeleteWithContext(context.Context, string) error { return nil }
func (storage) Delete(string) error                             { return nil }
func (storage) ResetWithContext(context.Context) error          { return nil }
func (storage) Reset() error                                    { return nil }
func (storage) Close() error                                    { return nil }
