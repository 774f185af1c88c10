package reconcile_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

func filling() *onceward.Reconcile { return &onceward.Reconcile{FillReferences: true} }

// A reference is filled in if the configuration asks for it. It is the same for every attempt, differs between
// operations, and is not part of the fingerprint.
func TestReferenceIsFilledIn(t *testing.T) {
	virtual(t, "where the configuration says so", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: filling(), Backoff: quick})
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Asks("invoice-1", "/transfers", `{"amount":10}`).Err, onceward.ErrOutcomeUnknown)
		require.NoError(t, l.Asks("invoice-2", "/transfers", `{"amount":10}`).Err)
		first, second := l.Recorded(onceward.Ref{ID: "invoice-1"}), l.Recorded(onceward.Ref{ID: "invoice-2"})
		assert.True(t, first.ReferenceOurs)
		assert.Len(t, first.Reference, 36)
		assert.NotEqual(t, first.Reference, second.Reference)
		assert.Contains(t, string(l.Box.Effects()[0].Body), `"external_id":"`+first.Reference+`"`)
		assert.NotContains(t, string(first.Request.Body), "external_id", "what is frozen is the caller's")
		out := l.Asks("invoice-1", "/transfers", `{"amount":10}`)
		require.NoError(t, out.Err)
		assert.Contains(t, out.Body, "obj_1", "each has its own, though they look alike")
		assert.Equal(t, journal.BasisReference, l.Stands("invoice-1").Evidence[0].Basis)
		l.Truly()
	})
	virtual(t, "where the table says so", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, func(p *providers.Provider) { p.Endpoints[1].Reference.Fill = true })
		require.NoError(t, l.Asks("invoice-1", "/transfers", `{"amount":10}`).Err)
		assert.True(t, l.Recorded(onceward.Ref{ID: "invoice-1"}).ReferenceOurs)
	})
	for _, row := range []struct {
		name, text string
		adjust     func(*providers.Provider)
		options    []option
	}{
		{"not where the caller has one", `{"amount":10,"external_id":"order-1"}`, func(*providers.Provider) {}, nil},
		{"not where payers see it", `{"amount":10}`, func(p *providers.Provider) { p.Endpoints[1].Reference.Visible = true }, nil},
		{"not into a signed request", `{"amount":10}`, func(*providers.Provider) {}, []option{with("X-Signature", "abc")}},
		{"not into a request with a digest", `{"amount":10}`, func(*providers.Provider) {}, []option{with("Content-Digest", "sha-256=:abc:")}},
		{"not where it has no place", `[1]`, func(*providers.Provider) {}, nil},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := atBank(t, onceward.Config{Reconcile: filling()}, row.adjust)
			require.NoError(t, l.Asks("invoice-1", "/transfers", row.text, row.options...).Err)
			assert.False(t, l.Recorded(onceward.Ref{ID: "invoice-1"}).ReferenceOurs)
			assert.Equal(t, row.text, string(l.Box.Effects()[0].Body))
		})
	}
}

// A reference is filled in wherever the table says, and only in the sent request. The caller's request stays unchanged.
func TestReferenceInEachPlace(t *testing.T) {
	for _, row := range []struct {
		place      providers.KeyPlace
		name, text string
		kind       string
	}{
		{providers.KeyRawHeader, "X-Reference", `{"amount":10}`, "application/json"},
		{providers.KeyQuery, "reference", `{"amount":10}`, "application/json"},
		{providers.KeyFormField, "reference", "amount=10", form},
		{providers.KeyGraphQL, "input.reference", `{"query":"mutation($i: I) { pay(input: $i) { id } }","variables":{"i":{"amount":10}}}`, "application/json"},
	} {
		virtual(t, row.place.String(), func(t *testing.T) {
			looks := filling()
			looks.Lookup = func(context.Context, onceward.Operation) (f onceward.Finding, err error) { return f, nil }
			l := atBank(t, onceward.Config{Reconcile: looks}, func(p *providers.Provider) {
				p.Endpoints[1].Reference = providers.Reference{Place: row.place, Name: row.name, Source: "made up"}
				p.Endpoints[1].Lookups, p.Events = nil, nil
			})
			var sent string
			l.Fakes(func(r *http.Request) *http.Response {
				if r.Method != http.MethodPost {
					return nil
				}
				text, _ := io.ReadAll(r.Body)
				sent = fmt.Sprint(r.URL, r.Header, string(text))
				return answers(http.StatusOK, `{"id":"obj_1"}`)
			})
			var asked *http.Request
			require.NoError(t, l.Asks("invoice-1", "/transfers", row.text, with("Content-Type", row.kind), func(r *http.Request) { asked = r }).Err)
			recorded := l.Recorded(onceward.Ref{ID: "invoice-1"})
			require.True(t, recorded.ReferenceOurs)
			assert.Equal(t, 1, strings.Count(sent, recorded.Reference), sent)
			assert.NotContains(t, fmt.Sprint(asked.URL, asked.Header), recorded.Reference)
			assert.NotContains(t, fmt.Sprint(recorded.Request.URL, recorded.Request.Header, string(recorded.Request.Body)), recorded.Reference)
		})
	}
}

// ofLaterPlaces is a journal whose references have places that only a later release knows.
type ofLaterPlaces struct {
	*memory.Journal
	place string
}

func (j ofLaterPlaces) Apply(ctx context.Context, ev machine.Event) (machine.Result, error) {
	res, err := j.Journal.Apply(ctx, ev)
	if res.Operation.ReferenceOurs {
		res.Operation.ReferenceName = j.place
	}
	return res, err
}

// An operation whose reference has an unknown place, or one that the request lacks, is not sent without it.
func TestReferenceInAnUnknownPlace(t *testing.T) {
	for place, says := range map[string]string{
		"trailer external_id":  "its reference was recorded in a place that this release does not know",
		"GraphQL argument ref": "",
	} {
		virtual(t, place, func(t *testing.T) {
			l := atBank(t, onceward.Config{Journal: ofLaterPlaces{memory.New(), place}, Reconcile: filling()})
			err := l.Asks("invoice-1", "/transfers", `{"amount":10}`).Err
			require.Error(t, err)
			require.ErrorContains(t, err, says)
			assert.Zero(t, l.Effects())
			assert.Equal(t, onceward.StateCancelled, l.Stands("invoice-1").State)
		})
	}
}

// References are switched on between two calls of a name. It stays one operation, and is not looked up by a reference
// that its request did not have.
func TestTrapReferencesSwitchedOn(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		j := memory.New()
		l := atBank(t, onceward.Config{Journal: j})
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Asks("invoice-1", "/transfers", `{"amount":10}`).Err, onceward.ErrOutcomeUnknown)
		second := another(t, l.Box, onceward.Config{Journal: j, Reconcile: filling()})
		out := second.Asks("invoice-1", "/transfers", `{"amount":10}`)
		require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
		second.Runs(time.Minute)
		op := second.Stands("invoice-1")
		assert.Equal(t, onceward.StateUnknown, op.State)
		assert.Contains(t, op.Attention, "carried no reference")
		assert.Equal(t, 1, l.Effects())
	})
}

// Every attempt in one generation has the same reference, and the next generation another.
func TestReferenceOfAGeneration(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		r := saysAbsent()
		r.FillReferences = true
		l := atBank(t, onceward.Config{Reconcile: r})
		l.Box.Script(providertest.DropBefore())
		require.ErrorIs(t, l.Asks("invoice-1", "/transfers", `{"amount":10}`).Err, onceward.ErrOutcomeUnknown)
		first := l.Recorded(onceward.Ref{ID: "invoice-1"}).Reference
		l.Runs(3 * time.Hour)
		require.Equal(t, onceward.StateCancelled, l.Stands("invoice-1").State, "%+v", l.Stands("invoice-1").Evidence)
		require.NoError(t, l.Asks("invoice-1", "/transfers", `{"amount":10}`).Err)
		second := l.Recorded(onceward.Ref{ID: "invoice-1"}).Reference
		assert.NotEqual(t, first, second)
		assert.True(t, strings.Contains(string(l.Box.Effects()[0].Body), second))
		l.Truly()
	})
}

// Every attempt has the operation's reference, also in other processes.
func TestReferenceOnEveryAttempt(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		var bodies []string
		l := atBank(t, onceward.Config{Reconcile: filling(), Backoff: quick}, func(p *providers.Provider) {
			e := &p.Endpoints[1]
			e.Key = providers.Key{Place: providers.KeyRawHeader, Name: "Idempotency-Key"}
			e.Retention, e.Remembers, e.InFlightGuard = 24*time.Hour, providers.Everything, true
		})
		l.Box.Script(providertest.DropAfter(), providertest.DropAfter())
		require.NoError(t, l.Asks("invoice-1", "/transfers", `{"amount":10}`).Err)
		for _, e := range l.Box.Effects() {
			bodies = append(bodies, string(e.Body))
		}
		require.Len(t, bodies, 1, "the provider took them for one: they were the same")
		assert.Equal(t, 3+1, l.Box.Requests())
	})
}

// An operation that an operator sends again gets another generated reference, in the same format. The object of the
// first may exist.
func TestReferenceOfAResend(t *testing.T) {
	for hyphens, adjust := range map[string]func(*providers.Provider){
		"with hyphens": func(*providers.Provider) {},
		"without":      func(p *providers.Provider) { p.Endpoints[1].Reference.MaxLength = 32 },
	} {
		virtual(t, hyphens, func(t *testing.T) {
			l := atBank(t, onceward.Config{Reconcile: filling()}, adjust)
			l.Box.Script(providertest.DropBefore())
			require.ErrorIs(t, l.Asks("a", "/transfers", `{"amount":10}`).Err, onceward.ErrOutcomeUnknown)
			first := l.Recorded(onceward.Ref{ID: "a"})
			require.True(t, first.ReferenceOurs)
			require.Equal(t, hyphens == "with hyphens", strings.Contains(first.Reference, "-"))
			_, err := l.ResolveAs(first.Ref, onceward.SendAgain, nil)
			require.NoError(t, err)
			_, err = l.Resume(t.Context())
			require.NoError(t, err)
			second := l.Recorded(first.Ref)
			require.Equal(t, onceward.StateCompleted, second.State)
			assert.NotEqual(t, first.Reference, second.Reference)
			assert.Equal(t, strings.Contains(first.Reference, "-"), strings.Contains(second.Reference, "-"))
			assert.Len(t, second.Reference, len(first.Reference))
			l.Truly()
		})
	}
}

// If Config.Reconcile.Lookup finds an operation absent, the same call sends it again under a new reference. Under the
// old one, a late object would be taken for the new request's.
func TestReferenceOfANextGeneration(t *testing.T) {
	for name, table := range map[string]func(*providers.Provider){
		"after its table's look": func(*providers.Provider) {},
		"without one": func(p *providers.Provider) {
			p.Endpoints[1].Lookups, p.Events = nil, nil
		},
	} {
		virtual(t, name, func(t *testing.T) {
			looks := filling()
			looks.Lookup = func(context.Context, onceward.Operation) (onceward.Finding, error) {
				return onceward.Finding{Found: journal.FindingAbsent}, nil
			}
			l := atBank(t, onceward.Config{Reconcile: looks}, table)
			references := map[string]bool{}
			l.Fakes(func(r *http.Request) *http.Response {
				if r.Method == http.MethodPost {
					sent, err := io.ReadAll(r.Body)
					require.NoError(t, err)
					r.Body = io.NopCloser(bytes.NewReader(sent))
					references[regexp.MustCompile(`"external_id":"[^"]+"`).FindString(string(sent))] = true
				}
				return nil
			})
			l.Box.Script(providertest.DropBefore())
			require.ErrorIs(t, l.Asks("never-arrived", "/transfers", `{"amount":10}`).Err, onceward.ErrOutcomeUnknown)
			l.Runs(30 * time.Minute)
			require.NoError(t, l.Asks("never-arrived", "/transfers", `{"amount":10}`).Err)
			assert.Equal(t, 1, l.Stands("never-arrived").Generation)
			assert.Len(t, references, 2)
			assert.NotContains(t, references, "")
		})
	}
}
