package reconcile_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// A list beside an error does not count as empty.
func TestLookupOfAListWithAnError(t *testing.T) {
	for _, text := range []string{
		`{"data":[],"has_more":false,"error":{"message":"index not available"}}`,
		`{"data":[],"has_more":false,"errors":[{"message":"timed out"}]}`,
		`{"data":[],"has_more":false,"errors":["timed out"]}`,
		`{"data":[],"has_more":false,"error":"timed out"}`,
	} {
		virtual(t, text, func(t *testing.T) {
			l := atBank(t, onceward.Config{})
			l.Box.Script(providertest.DropAfter())
			require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
			l.Fakes(func(r *http.Request) *http.Response {
				if r.Method == http.MethodGet && r.URL.Path == "/payments" {
					return answers(200, text)
				}
				return nil
			})
			_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
			require.Error(t, err)
			assert.Equal(t, "the answer lists errors", l.Stands("invoice-1").Evidence[0].Why)
		})
	}
}

// An object that one look-up shows, but can't match, is not absent because another look-up does not show it.
func TestLookupThatFoundATrace(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, func(p *providers.Provider) {
			e := &p.Endpoints[0]
			second := p.Clone().Endpoints[0].Lookups[0]
			second.Query = "all={key}&limit=100"
			e.Lookups = append(e.Lookups, second)
		})
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		key, created := l.Stands("invoice-1").Key, time.Now()
		l.Fakes(func(r *http.Request) *http.Response {
			switch {
			case r.Method != http.MethodGet || r.URL.Path != "/payments":
				return nil
			case r.URL.Query().Has("all"):
				return answers(200, fmt.Sprintf(`{"data":[{"id":"obj_1","idempotency_key":%q,"created":%d}],"has_more":false}`, key, created.Add(-10*time.Minute).Unix()))
			}
			return answers(200, `{"data":[],"has_more":false}`)
		})
		_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
		require.Error(t, err)
		e := l.Stands("invoice-1").Evidence[0]
		assert.Equal(t, journal.FindingAmbiguous, e.Finding)
		assert.Contains(t, e.Why, "before it was first sent")
	})
}

// An object that a list shows is not absent because the program's own look-up does not see it, although the object has no id,
// or may be another account's.
func TestTheProgramsLookupDoesNotOutweighATrace(t *testing.T) {
	for name, row := range map[string]struct{ path, text, shown, why string }{
		"without an id": {"/payments", `{"amount":10}`, `{"idempotency_key":%[1]q,"created":%[2]d}`, "shows no id"},
		"of an account that is not known": {"/transfers", `{"amount":10,"external_id":"order-1"}`,
			`{"id":"obj_1","external_id":"order-1","amount":10,"status":"succeeded","created":%[2]d}`, "not proven"},
	} {
		virtual(t, name, func(t *testing.T) {
			token := tellerToken
			l := another(t, openBank(t, func(p *providers.Provider) {
				p.Identity = providers.Identity{}
				p.Endpoints[1].Key = providers.Key{Place: providers.KeyRawHeader, Name: "Idempotency-Key"}
			}), onceward.Config{Reconcile: saysAbsent(), Authorize: func(r *http.Request) error { r.Header.Set("Authorization", token); return nil }})
			l.Box.Script(providertest.DropAfter())
			require.ErrorIs(t, l.Asks("invoice-1", row.path, row.text).Err, onceward.ErrOutcomeUnknown)
			key, created := l.Stands("invoice-1").Key, time.Now().Unix()
			l.Fakes(func(r *http.Request) *http.Response {
				if r.Method != http.MethodGet {
					return nil
				}
				return answers(200, `{"data":[`+fmt.Sprintf(row.shown+"%.0[1]s", key, created)+`],"has_more":false}`)
			})
			if row.path == "/transfers" {
				token = "Bearer another"
			}
			l.Runs(2 * time.Hour)
			op := l.Stands("invoice-1")
			assert.Equal(t, onceward.StateUnknown, op.State)
			assert.Contains(t, latest(op).Why, row.why)
		})
	}
}

// Config.Reconcile.Lookup is called if the table's look-ups find nothing.
func TestLookupHookRuns(t *testing.T) {
	asked := 0
	hook := func(context.Context, onceward.Operation) (onceward.Finding, error) {
		asked++
		return onceward.Finding{Found: journal.FindingTookEffect, Object: "payment obj_1"}, nil
	}
	virtual(t, "found nothing", func(t *testing.T) {
		asked = 0
		l := atBank(t, onceward.Config{Reconcile: &onceward.Reconcile{Lookup: hook}})
		l.Box.Visible(24 * time.Hour)
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
		require.NoError(t, err)
		assert.Equal(t, 1, asked)
	})
}

// The clock was ten minutes ahead when the request was sent, and is right now. The object seems to be older than the
// request, and is not absent.
func TestLookupAfterTheClockRanAhead(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/payments", "/transfers"} {
		virtual(t, path, func(t *testing.T) {
			const text = `{"amount":10,"external_id":"order-1"}`
			ahead := 10 * time.Minute
			l := atBank(t, onceward.Config{})
			setClock(l.Client, func() time.Time { return time.Now().Add(ahead) })
			l.Box.Script(providertest.DropAfter())
			require.ErrorIs(t, l.Asks("invoice-1", path, text).Err, onceward.ErrOutcomeUnknown)
			time.Sleep(20 * time.Minute)
			ahead = 0
			require.NoError(t, l.Asks("control", path, `{"amount":10,"external_id":"order-2"}`).Err)
			l.Runs(24 * time.Hour)
			op := l.Stands("invoice-1")
			assert.NotEqual(t, onceward.StateCancelled, op.State, "%+v", op.Evidence)
			l.Truly()
		})
	}
}

// A table that declares the kind of an object only now also covers objects that were recorded before.
func TestLookupByAKindDeclaredLater(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		const text = `{"amount":10,"external_id":"order-1"}`
		j := memory.New()
		second := atBank(t, onceward.Config{Journal: j})
		l := another(t, second.Box, onceward.Config{Journal: j}, func(p *providers.Provider) {
			p.Endpoints[1].Object, p.Endpoints[1].Lookups = "", nil
		})
		require.NoError(t, l.Asks("first", "/transfers", text).Err)
		second.Box.Script(providertest.DropBefore())
		require.ErrorIs(t, second.Asks("second", "/transfers", text).Err, onceward.ErrOutcomeUnknown)
		second.Runs(time.Hour)
		assert.Equal(t, onceward.StateUnknown, second.Stands("second").State)
		second.Truly()
	})
}

// The object that a refusal showed belongs to the refused operation, and refuses no similar one.
func TestLookupBesideARefusedObject(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		const text = `{"amount":10,"external_id":"order-1"}`
		l := atBank(t, onceward.Config{}, func(p *providers.Provider) {
			p.Endpoints[1].ObjectID = "transfer.id"
			p.Endpoints[1].Rules = []providers.Rule{{Status: 402, Verdict: providers.Final, Source: "made up"}}
		})
		declined := fmt.Sprintf(`{"id":"obj_9","status":"failed","external_id":"order-1","amount":10,"created":%d}`, time.Now().Unix())
		l.Fakes(func(r *http.Request) *http.Response {
			if r.Method == http.MethodPost {
				return answers(402, `{"errors":[{"code":"DECLINED"}],"transfer":`+declined+`}`)
			}
			return nil
		})
		out := l.Asks("first", "/transfers", text)
		require.NoError(t, out.Err)
		require.True(t, l.Stands("first").Answer.Refused)
		assert.Equal(t, "transfer obj_9", l.Stands("first").Object)
		l.Fakes(func(r *http.Request) *http.Response {
			if r.Method == http.MethodGet && r.URL.Path == "/transfers" {
				return answers(200, `{"data":[`+declined+`],"has_more":false}`)
			}
			return nil
		})
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Asks("second", "/transfers", text).Err, onceward.ErrOutcomeUnknown)
		_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "second"})
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		assert.Equal(t, onceward.StateUnknown, l.Stands("second").State)
	})
}
