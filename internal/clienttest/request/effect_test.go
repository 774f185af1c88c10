package request_test

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/providers"
)

// zipped returns a text as gzip.
func zipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

// The operation says in one word what became of it, whatever the status of the answer: to its caller, to a later look, and in a list.
func TestEffectOfAnOperation(t *testing.T) {
	const declines = `{"status":"declined"}`
	charges := own(remembers(providers.SuccessesCleanFailures), func(e *providers.Endpoint) { e.InFlightGuard = true })
	charges.Answers = []string{"application/json"}
	charges.Declines = []providers.Decline{{Field: "status", Equals: "declined", Source: "a test"}}
	for name, row := range map[string]struct {
		script []reply
		with   []option
		want   onceward.Effect
	}{
		"a success":                  {script: []reply{says(200, paid)}, want: onceward.EffectExecuted},
		"a decline by a 201":         {script: []reply{says(201, declines)}, want: onceward.EffectRefused},
		"a decline after a 500":      {script: []reply{says(500, `{}`), says(200, declines)}, want: onceward.EffectRefused},
		"a decline, with a coding":   {script: []reply{says(200, zipped(t, declines), "Content-Encoding", "gzip")}, with: []option{with("Accept-Encoding", "gzip")}, want: onceward.EffectRefused},
		"a refusal by its status":    {script: []reply{declined}, want: onceward.EffectRefused},
		"a refusal of the request":   {script: []reply{invalid}, want: onceward.EffectNotExecuted},
		"an answer that says little": {script: []reply{frozen}, want: onceward.EffectUnknown},
		"nothing so far":             {script: []reply{refuses()}, want: onceward.EffectPending},
	} {
		virtual(t, name, func(t *testing.T) {
			cfg := onceward.Config{Providers: []providers.Provider{charges}}
			if name == "a refusal by its status" || name == "a refusal of the request" || name == "an answer that says little" || name == "nothing so far" {
				cfg.Providers, row.with = nil, []option{to(http.MethodPost, chargeURL)}
			} else {
				row.with = append(row.with, to(http.MethodPost, ownURL))
			}
			if name == "nothing so far" {
				cfg.Backoff = once
			}
			p := start(t, (&line{}).Then(row.script...), cfg)
			out := p.Ask(named(t, invoice), row.with...)
			if out.Err == nil {
				assert.Equal(t, row.want, out.Op.Effect)
			}
			op, err := p.Operation(t.Context(), onceward.Ref{ID: invoice})
			require.NoError(t, err)
			assert.Equal(t, row.want, op.Effect, op.State)
			if op.State == onceward.StateCompleted {
				assert.Equal(t, row.want == onceward.EffectRefused, op.Answer.Refused)
			}
			for op, err := range p.Operations(t.Context(), onceward.Filter{}) {
				require.NoError(t, err)
				assert.Equal(t, row.want, op.Effect, "in a list")
			}
			assert.Empty(t, machine.Violations(p.Recorded(onceward.Ref{ID: invoice}), time.Now()))
		})
	}
}

// A success whose body is cut off, or has a coding that can't be read, may be a decline. It counts as no effect.
func TestEffectOfASuccessThatCanNotBeRead(t *testing.T) {
	declines := []providers.Decline{{Field: "status", Equals: "declined", Source: "a test"}}
	for name, row := range map[string]struct {
		declines []providers.Decline
		answer   reply
		want     onceward.Effect
	}{
		"cut, by a table with declines":         {declines, cuts(201, `{"id":"ch_1","status":"decl`), onceward.EffectUnknown},
		"cut, by a table without declines":      {nil, cuts(201, `{"id":"ch_1","status":"paid`), onceward.EffectExecuted},
		"a coding, by a table with declines":    {declines, says(201, "\x0b\x02\x80hello\x03", "Content-Encoding", "br"), onceward.EffectUnknown},
		"a coding, by a table without any":      {nil, says(201, "\x0b\x02\x80hello\x03", "Content-Encoding", "br"), onceward.EffectExecuted},
		"no body by 204, a table with declines": {declines, says(204, ""), onceward.EffectExecuted},
	} {
		virtual(t, name, func(t *testing.T) {
			charges := own(func(e *providers.Endpoint) { e.Remembers, e.Retention = providers.Nothing, 0 })
			charges.Declines = row.declines
			p := start(t, (&line{}).Always(row.answer), onceward.Config{Providers: []providers.Provider{charges}})
			_ = p.Ask(named(t, invoice), to(http.MethodPost, ownURL), with("Accept-Encoding", "br"))
			op, err := p.Operation(t.Context(), onceward.Ref{ID: invoice})
			require.NoError(t, err)
			assert.Equal(t, row.want, op.Effect, "%v: %s", op.State, op.Cause)
		})
	}
}
