package promises_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
)

// A key is rotated in one step. The process that lacks the new key tells its callers that the journal failed, and never
// that a name is another request's, since that advises another name. The person's decision needs no key.
func TestACallerWithoutTheKeyPaysOnce(t *testing.T) {
	srv := oncetest.Serving(t, providers.Stripe(), nil)
	path := filepath.Join(t.TempDir(), "journal.db")
	process := func(ids ...string) *process {
		j, err := sqlite.Open(path, sqlite.Options{Volatile: true, Seal: oncetest.Ring(ids...)})
		require.NoError(t, err)
		t.Cleanup(func() { _ = j.Close() })
		return oncetest.Calling(t, srv, onceward.Config{Journal: j})
	}
	first, second := process("k1"), process("k2", "k1")
	require.NoError(t, second.Ask(named(t, "invoice"), oncetest.Charging(srv)).Err)

	for range 2 {
		out := first.Ask(named(t, "invoice"), oncetest.Charging(srv))
		require.ErrorIs(t, out.Err, onceward.ErrJournal)
		require.ErrorIs(t, out.Err, journal.ErrSealed)
		assert.ErrorContains(t, out.Err, `"k2"`)
	}
	assert.Len(t, srv.Effects(), 1)

	require.NoError(t, second.Ask(named(t, "invoice"), oncetest.Charging(srv)).Err)
	require.NoError(t, process("k1", "k2").Ask(named(t, "invoice"), oncetest.Charging(srv)).Err, "once it has the key")
	assert.Len(t, srv.Effects(), 1)
}

// A client seals each part in a request, an answer and a failure. No field in clear repeats a word of a part.
func TestNoClearFieldRepeatsAPayload(t *testing.T) {
	const planted = "planted-word"
	answers := map[string]func(*http.Request) (*http.Response, error){}
	answer := func(name string, status int, body string, header ...string) {
		answers[name] = func(r *http.Request) (*http.Response, error) {
			h := http.Header{"Content-Type": {"application/json"}, "X-" + planted: {planted}, "Request-Id": {planted}}
			for i := 0; i < len(header); i += 2 {
				h.Set(header[i], header[i+1])
			}
			return &http.Response{StatusCode: status, Status: http.StatusText(status), ProtoMajor: 1, ProtoMinor: 1, Header: h, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
		}
	}
	failure := `{"error":{"type":"card_error","code":"` + planted + `","decline_code":"` + planted + `","message":"` + planted + `"}}`
	answer("paid", 200, `{"id":"`+planted+`"}`)
	answer("not-json", 200, planted)
	answer("refused", 400, failure)
	answer("declined", 402, failure)
	answer("limited", 429, failure, "Retry-After", planted)
	answer("failed", 500, failure)
	answer("gateway", 502, "<html>"+planted)
	answer("moved", 307, planted, "Location", "https://api.stripe.com/"+planted)
	answer("elsewhere", 302, planted, "Location", "https://"+planted+".example/")
	answer("odd", 299, planted, "Content-Encoding", planted)
	answers["cut"] = func(r *http.Request) (*http.Response, error) { return nil, errors.New(planted) }
	path := filepath.Join(t.TempDir(), "journal.db")
	j, err := sqlite.Open(path, sqlite.Options{Volatile: true, Seal: oncetest.Ring("k1")})
	require.NoError(t, err)
	for name, answers := range answers {
		for place, to := range map[string]string{"known": oncetest.ChargeURL, "own": oncetest.OwnURL + "/" + planted} {
			p := oncetest.Start(t, roundTrip(answers), onceward.Config{Journal: j, Backoff: oncetest.Once, Providers: []providers.Provider{providers.Stripe(), oncetest.Own()}})
			_ = p.Ask(named(t, name+"-"+place), oncetest.To(http.MethodPost, to+"?for="+planted), oncetest.With("X-"+planted, planted), oncetest.With("Content-Type", oncetest.Form),
				oncetest.Body("amount=100&currency=eur&description="+planted+"&metadata[order]="+planted))
		}
	}
	ops := 0
	for op, err := range j.List(t.Context(), journal.Filter{}) {
		require.NoError(t, err)
		require.Contains(t, op.Request.URL, planted)
		ops++
	}
	assert.Equal(t, 2*len(answers), ops)
	files, err := filepath.Glob(path + "*")
	require.NoError(t, err)
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		for at := bytes.Index(content, []byte(planted)); at >= 0; at = -1 {
			assert.Fail(t, "a payload is in clear", "%s: %q", filepath.Base(file), content[max(0, at-200):min(len(content), at+100)])
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// For an hour, a process lacks the key that other processes seal with: one key came to it late. It sends its own
// operations, passes over the others' and says which key to give it. A process with the key then sends them once.
func TestAKeyIsMissingForAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "journal.db")
		var log logged
		up := false
		var sent []string
		bank := roundTrip(func(r *http.Request) (*http.Response, error) {
			if !up {
				return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
			}
			sent = append(sent, r.Header.Get("Idempotency-Key"))
			return oncetest.Answers(200, paid), nil
		})
		process := func(ids ...string) (*process, func()) {
			j, err := sqlite.Open(path, sqlite.Options{Volatile: true, Seal: oncetest.Ring(ids...)})
			require.NoError(t, err)
			p := oncetest.Start(t, bank, onceward.Config{Journal: j, Backoff: oncetest.Once, Keep: 10 * time.Minute, Providers: []providers.Provider{providers.Stripe(),
				oncetest.Own(func(e *providers.Endpoint) { e.Retention = 5 * time.Minute })}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			return p, func() {
				require.NoError(t, p.Shutdown(t.Context()))
				require.NoError(t, j.Close())
			}
		}
		late, end := process("k1")
		defer end()
		early, gone := process("k2", "k1")
		up = true
		require.NoError(t, early.Ask(named(t, "old"), oncetest.To(http.MethodPost, oncetest.OwnURL)).Err)
		sent, up = nil, false
		require.ErrorIs(t, early.Ask(named(t, "sealed by k2")).Err, onceward.ErrPending)
		require.ErrorIs(t, late.Ask(named(t, "sealed by k1")).Err, onceward.ErrPending)
		gone()

		up = true
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- late.Run(ctx) }()
		for range 60 {
			oncetest.Pass(time.Minute)
			out := late.Ask(named(t, "sealed by k2"))
			require.ErrorIs(t, out.Err, journal.ErrSealed)
			require.ErrorIs(t, out.Err, onceward.ErrJournal)
			require.NotErrorIs(t, out.Err, onceward.ErrKeyReused)
		}
		_, err := late.Resume(t.Context())
		require.ErrorIs(t, err, journal.ErrSealed)
		require.ErrorContains(t, err, `it needs the key "k2" in Options.Seal`)
		assert.Len(t, sent, 1, "its own")
		_, err = late.Operation(t.Context(), onceward.Ref{ID: "old"})
		require.NoError(t, err, "it reaps meanwhile, and nothing sealed is left of the operation")
		assert.Contains(t, log.String(), `\"k2\"`, "the operator reads which key is missing")
		assert.Less(t, strings.Count(log.String(), "event=journal.pass_failed"), 70, "and not at every turn")
		stop()
		<-ended

		early, gone = process("k2", "k1")
		defer gone()
		_, err = early.Resume(t.Context())
		require.NoError(t, err)
		require.Len(t, sent, 2)
		require.NoError(t, early.Ask(named(t, "sealed by k2")).Err)
		require.NoError(t, early.Ask(named(t, "sealed by k1")).Err)
		assert.Len(t, sent, 2)
		assert.NotEqual(t, sent[0], sent[1])
	})
}

// logged is a log that several goroutines write.
type logged struct {
	mu sync.Mutex
	strings.Builder
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Builder.Write(b)
}

// A release forgets the ring, and one worker in three runs it. That worker does not start, and says why. The others go on.
func TestAWorkerForgetsTheRing(t *testing.T) {
	srv := oncetest.Serving(t, providers.Stripe(), nil)
	path := filepath.Join(t.TempDir(), "journal.db")
	var workers []*process
	for range 3 {
		j, err := sqlite.Open(path, sqlite.Options{Volatile: true, Seal: oncetest.Ring("k1")})
		require.NoError(t, err)
		t.Cleanup(func() { _ = j.Close() })
		workers = append(workers, oncetest.Calling(t, srv, onceward.Config{Journal: j}))
	}
	require.NoError(t, workers[2].Ask(named(t, "invoice-2"), oncetest.Charging(srv)).Err)
	workers[2].Crash()
	_, err := sqlite.Open(path, sqlite.Options{Volatile: true})
	require.ErrorIs(t, err, journal.ErrSealed)
	require.ErrorContains(t, err, `it needs the key "k1" in Options.Seal`)
	for i, worker := range []*process{workers[0], workers[1], workers[0]} {
		require.NoError(t, worker.Ask(named(t, fmt.Sprint("invoice-", i)), oncetest.Charging(srv)).Err)
	}
	assert.Len(t, srv.Effects(), 3)
}
