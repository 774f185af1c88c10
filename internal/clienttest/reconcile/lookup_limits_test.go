package reconcile_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/providers/providertest"
)

// An answer's Retry-After counts, even if the body breaks off.
func TestLookupKeepsTheRetryAfterOfACutAnswer(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		l.Box.Script(providertest.DropBefore())
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		var looks []time.Time
		l.Fakes(func(r *http.Request) *http.Response {
			if r.Method != http.MethodGet {
				return nil
			}
			looks = append(looks, time.Now())
			resp := answers(http.StatusTooManyRequests, "later")
			resp.Header.Set("Retry-After", "1800")
			resp.Body = io.NopCloser(brokenBody)
			return resp
		})
		l.Runs(3 * time.Hour)
		require.Greater(t, len(looks), 2)
		for i, at := range looks[1:] {
			assert.GreaterOrEqual(t, at.Sub(looks[i]), 30*time.Minute)
		}
	})
}

// Two look-ups with the same answer have the same digest, and others another.
func TestLookupHasADigestOfItsAnswer(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		l.Box.Script(providertest.DropBefore())
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		var digests []string
		for _, more := range []string{"", "", `,"note":1`} {
			l.Fakes(func(r *http.Request) *http.Response {
				if r.Method == http.MethodGet && r.URL.Path == "/payments" {
					return answers(http.StatusOK, `{"data":[],"has_more":false`+more+`}`)
				}
				return nil
			})
			pass(2 * time.Minute)
			_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
			require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
			digests = append(digests, latest(l.Stands("invoice-1")).Digest)
		}
		assert.Equal(t, digests[0], digests[1])
		assert.NotEqual(t, digests[0], digests[2])
	})
}

// Look-ups pause if the provider asks for it, or says that it has too many requests.
func TestLookupThatHasToPause(t *testing.T) {
	const rests = "asked for a pause"
	for _, row := range []struct {
		status int
		after  string // Retry-After
		rests  bool
	}{
		{400, "1800", true}, {429, "1800", true}, {429, "", true}, {400, "", false}, {503, "", false}, {200, "1800", false},
	} {
		virtual(t, fmt.Sprint(row.status, row.after), func(t *testing.T) {
			l := atBank(t, onceward.Config{})
			l.Loses("first", providertest.DropBefore())
			l.Loses("second", providertest.DropBefore())
			closed := 0
			l.Fakes(func(r *http.Request) *http.Response {
				if r.Method != http.MethodGet || r.URL.Path != "/payments" {
					return nil
				}
				assert.Equal(t, http.NoBody, r.Body)
				resp := answers(row.status, `{"data":[],"has_more":false}`)
				resp.Header.Set("Retry-After", row.after)
				resp.Body = closing(resp.Body, func() { closed++ })
				return resp
			})
			_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "first"})
			require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
			assert.Equal(t, 1, closed)
			pass(59 * time.Second)
			_, err = l.Reconcile(t.Context(), onceward.Ref{ID: "second"})
			require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
			assert.Equal(t, row.rests, strings.Contains(latest(l.Stands("second")).Why, rests), latest(l.Stands("second")).Why)
		})
	}
}

// The evidence from a look-up that takes too long says so.
func TestLookupThatTakesTooLong(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{AttemptTimeout: time.Second})
		l.Loses("invoice-1", providertest.DropBefore())
		l.Fakes(func(r *http.Request) *http.Response {
			if r.Method == http.MethodGet && r.URL.Path == "/payments" {
				<-r.Context().Done()
			}
			return nil
		})
		_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		assert.Contains(t, latest(l.Stands("invoice-1")).Why, "the look-up did not end in time")
	})
}

// A look-up that is answered returns its budget. One that fails does not.
func TestLookupReturnsUnusedBudget(t *testing.T) {
	for status, within := range map[int]bool{200: true, 299: true, 300: false, 503: false} {
		virtual(t, fmt.Sprint(status), func(t *testing.T) {
			l := atBank(t, onceward.Config{Reconcile: &onceward.Reconcile{Budget: backoff.Budget{Capacity: 3, Refill: 1e-9, PerSuccess: 1, ProbeEvery: 24 * time.Hour}}})
			l.Loses("invoice-1", providertest.DropBefore())
			l.Fakes(func(r *http.Request) *http.Response {
				if r.Method != http.MethodGet || r.URL.Path != "/payments" {
					return nil
				}
				return answers(status, `{"data":[],"has_more":false}`)
			})
			for range 6 {
				_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
				require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
				pass(2 * time.Minute)
			}
			assert.Equal(t, within, !strings.Contains(latest(l.Stands("invoice-1")).Why, "Config.Reconcile.Budget"), latest(l.Stands("invoice-1")).Why)
		})
	}
}
