package promises_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/seal"
)

// A key is rotated in one step. The process that lacks the new key tells its callers that the journal failed, and never
// that a name is another request's, since that advises another name. The person's decision needs no key.
func TestACallerWithoutTheKeyPaysOnce(t *testing.T) {
	srv := oncetest.Serving(t, providers.Stripe(), nil)
	path := filepath.Join(t.TempDir(), "journal.db")
	process := func(ids ...string) *process {
		var keys []seal.Key
		for _, id := range ids {
			keys = append(keys, seal.Key{ID: id, Secret: bytes.Repeat([]byte(id), seal.SecretSize/2)})
		}
		ring, err := seal.NewRing(keys...)
		require.NoError(t, err)
		j, err := sqlite.Open(path, sqlite.Options{Volatile: true, Seal: ring})
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

// A client seals each part of a request, an answer and a failure. No field in clear repeats a word of a part.
func TestNoClearFieldRepeatsAPayload(t *testing.T) {
	const planted = "planted-word"
	secret := bytes.Repeat([]byte("k"), seal.SecretSize-1)
	ring, err := seal.NewRing(seal.Key{ID: "k1", Secret: append(secret, 1)})
	require.NoError(t, err)
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
	j, err := sqlite.Open(path, sqlite.Options{Volatile: true, Seal: ring})
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
