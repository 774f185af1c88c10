package request_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
)

// An operation keeps the answer that left it pending or unknown, until its outcome is known. A secret body is not kept, nor is one
// that is too long.
func TestLastAnswerIsKept(t *testing.T) {
	const why = `{"name":"UNPROCESSABLE_ENTITY","details":[{"issue":"PAYEE_BLOCKED"}]}`
	unclear := func(e *providers.Endpoint) {
		e.Rules = []providers.Rule{{Status: 422, Verdict: providers.Indeterminate, Source: "a test"}}
	}
	for name, row := range map[string]struct {
		endpoint []func(*providers.Endpoint)
		script   []reply
		want     *onceward.Answer
	}{
		"unknown":                    {endpoint: []func(*providers.Endpoint){unclear}, script: []reply{says(422, why)}, want: &onceward.Answer{Status: 422, Body: []byte(why)}},
		"a secret answer":            {endpoint: []func(*providers.Endpoint){unclear, func(e *providers.Endpoint) { e.SecretResponse = true }}, script: []reply{says(422, why)}, want: &onceward.Answer{Status: 422, Omitted: true}},
		"a long answer":              {endpoint: []func(*providers.Endpoint){unclear}, script: []reply{says(422, strings.Repeat("x", journal.MaxLastAnswer+1))}, want: &onceward.Answer{Status: 422, Omitted: true}},
		"no answer after an answer":  {script: []reply{says(500, why), loses()}, want: &onceward.Answer{Status: 500, Body: []byte(why)}},
		"no answer at all":           {script: []reply{loses(), loses()}},
		"an answer, and the outcome": {script: []reply{says(500, why), says(200, paid)}},
		"nothing was sent":           {script: []reply{refuses(), refuses()}},
	} {
		oncetest.Each(t, name, func(t *testing.T, j machine.Store) {
			p := start(t, (&line{}).Then(row.script...), onceward.Config{Journal: j, Providers: []providers.Provider{own(append([]func(*providers.Endpoint){remembers(providers.Everything), func(e *providers.Endpoint) { e.InFlightGuard = true }}, row.endpoint...)...)},
				Backoff: backoff.Policy{Initial: time.Millisecond, Max: time.Second, MaxAttempts: max(len(row.script), 1)}})
			_ = p.Ask(named(t, invoice), to("POST", ownURL))
			op, err := p.Operation(t.Context(), onceward.Ref{ID: invoice})
			require.NoError(t, err)
			got := op.LastAnswer
			if got != nil {
				got.Header = nil
			}
			assert.Equal(t, row.want, got, op.State)
		})
	}
}

// The kept answer outlives the process, and ends with the operation's outcome.
func TestLastAnswerEndsWithTheOutcome(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "journal.db")
		open := func() *sqlite.Journal {
			j, err := sqlite.Open(path, sqlite.Options{Volatile: true})
			require.NoError(t, err)
			return j
		}
		j := open()
		p := start(t, (&line{}).Then(frozen), onceward.Config{Journal: j})
		require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrOutcomeUnknown)
		require.NoError(t, p.Shutdown(t.Context()))
		require.NoError(t, j.Close())
		j = open()
		defer j.Close()
		p = start(t, &line{}, onceward.Config{Journal: j})
		op, err := p.Operation(t.Context(), onceward.Ref{ID: invoice})
		require.NoError(t, err)
		require.NotNil(t, op.LastAnswer)
		assert.NotEmpty(t, op.LastAnswer.Body)
		op, err = p.Resolve(t.Context(), op.Seen, onceward.NotExecuted, onceward.ResolveOptions{By: "ada", Why: "the dashboard shows none"})
		require.NoError(t, err)
		assert.Nil(t, op.LastAnswer)
		pass(time.Minute)
		require.NoError(t, p.Shutdown(t.Context()))
	})
}
