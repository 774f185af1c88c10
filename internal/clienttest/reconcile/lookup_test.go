package reconcile_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/lookup"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// An object's id is kept up to the maximum length.
func TestIDOfAnObjectOfTheGreatestLength(t *testing.T) {
	for name, length := range map[string]int{"the longest": lookup.MaxID, "longer": lookup.MaxID + 1} {
		virtual(t, name, func(t *testing.T) {
			srv := providertest.NewUnstartedServerInMemory(bank(), providertest.Objects(strings.Repeat("o", length-1)))
			srv.Account = func(r providertest.Request) string { return r.Header.Get("Authorization") }
			srv.StartTLS()
			defer srv.Close()
			l := another(t, srv, onceward.Config{})
			srv.Script(providertest.DropAfter())
			require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
			_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
			if length > lookup.MaxID {
				require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, "payment "+strings.Repeat("o", length-1)+"1", l.Stands("invoice-1").Object)
		})
	}
}

// Three lists at one path are read as three lists.
func TestLookupOfListsAtOnePath(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, func(p *providers.Provider) {
			e := &p.Endpoints[1]
			second, third := p.Clone().Endpoints[1].Lookups[0], p.Clone().Endpoints[1].Lookups[0]
			second.Query, third.Query = "some=1&"+second.Query, "all=1&"+third.Query
			e.Lookups = append(e.Lookups, second, third)
		})
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Asks("invoice-1", "/transfers", order1).Err, onceward.ErrOutcomeUnknown)
		l.Fakes(func(r *http.Request) *http.Response {
			if r.Method == http.MethodGet && r.URL.Path == "/transfers" && !r.URL.Query().Has("all") {
				return answers(http.StatusOK, `{"data":[],"has_more":false}`)
			}
			return nil
		})
		op, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
		require.NoError(t, err)
		assert.Equal(t, onceward.StateCompleted, op.State)
		l.Truly()
	})
}

// A live payment is not looked up with a test credential, which would not show it.
func TestLookupUnderAnotherMode(t *testing.T) {
	for _, row := range []struct {
		name, with string
		changed    bool
	}{
		{"of the other mode", "Bearer sk_test_1", true},
		{"of no mode that is known", "Bearer other", false},
		{"of its mode", "Bearer sk_live_1", false},
	} {
		virtual(t, row.name, func(t *testing.T) {
			token := "Bearer sk_live_1"
			l := atBank(t, onceward.Config{Authorize: func(r *http.Request) error {
				r.Header.Set("Authorization", token)
				return nil
			}}, func(p *providers.Provider) {
				p.CredentialModes = []providers.CredentialMode{{Prefix: "sk_live_", Mode: "live"}, {Prefix: "sk_test_", Mode: "test"}}
			})
			l.Box.Script(providertest.DropAfter())
			require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
			token = row.with
			_, _ = l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
			op := l.Stands("invoice-1")
			assert.Equal(t, row.with == "Bearer sk_live_1", op.State == onceward.StateCompleted)
			assert.Equal(t, row.changed, strings.Contains(op.Evidence[len(op.Evidence)-1].Why, "of another mode"))
		})
	}
}

// byTime matches transfers by their fields, and byParent by their parent.
func byTime(p *providers.Provider) {
	e := &p.Endpoints[1]
	e.Reference = providers.Reference{}
	e.Lookups[0].By, e.Lookups[0].Same[0].Is = providers.ByTime, "{request.external_id}"
}

func byParent(p *providers.Provider) {
	byTime(p)
	e := &p.Endpoints[1]
	e.Pattern = "POST /accounts/{id}/transfers"
	e.Lookups[0].By, e.Lookups[0].Path = providers.ByParent, "/accounts/{path.id}/transfers"
}

var alikes = []struct {
	name, path string
	table      func(*providers.Provider)
}{
	{"by reference", "/transfers", func(*providers.Provider) {}},
	{"by time", "/transfers", byTime},
	{"by parent", "/accounts/a/transfers", byParent},
}

// showing compares an answer with the object that it should show.
func showing(t *testing.T, out outcome, object string) {
	t.Helper()
	if assert.NoError(t, out.Err) {
		assert.Equal(t, http.StatusOK, out.Status)
		assert.Contains(t, out.Body, object)
	}
}

// latest returns the latest evidence for an operation.
func latest(op onceward.Operation) (e onceward.Evidence) {
	if n := len(op.Evidence); n > 0 {
		e = op.Evidence[n-1]
	}
	return e
}

// A payment whose answer was cut off has an unknown object. That object does not settle a similar payment that was
// never sent.
func TestLookupBesideACutAnswer(t *testing.T) {
	t.Parallel()
	for _, row := range alikes {
		virtual(t, row.name, func(t *testing.T) {
			l := atBank(t, onceward.Config{}, row.table)
			l.Box.Script(providertest.CutAt(5), providertest.DropBefore())
			_ = l.Asks("invoice-1", row.path, order1)
			done := l.Stands("invoice-1")
			require.Equal(t, onceward.StateCompleted, done.State)
			require.Empty(t, done.Object)
			require.Error(t, l.Asks("invoice-2", row.path, order1).Err)
			l.Runs(24 * time.Hour)
			op := l.Stands("invoice-2")
			assert.Equal(t, onceward.StateUnknown, op.State)
			assert.Empty(t, op.Object)
			l.Truly()
		})
		virtual(t, row.name+", and two objects", func(t *testing.T) {
			l := atBank(t, onceward.Config{}, row.table)
			l.Box.Script(providertest.CutAt(5), providertest.DropAfter())
			_ = l.Asks("invoice-1", row.path, order1)
			require.Error(t, l.Asks("invoice-2", row.path, order1).Err)
			l.Runs(time.Hour)
			op := l.Stands("invoice-2")
			assert.Equal(t, onceward.StateUnknown, op.State)
			assert.NotEmpty(t, op.Attention, "a person is told of the candidates")
			assert.Contains(t, latest(op).Object, "transfer obj_1")
			l.Truly()
		})
	}
}

// A caller of a payment with a cut-off answer gets the payment's object once a look-up finds it.
func TestLookupForACutAnswer(t *testing.T) {
	t.Parallel()
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		hidden := true
		l.Fakes(func(r *http.Request) *http.Response {
			if hidden && r.Method == http.MethodGet {
				return answers(http.StatusServiceUnavailable, "")
			}
			return nil
		})
		l.Box.Script(providertest.CutAt(5))
		out := l.Asks("invoice-1", "/transfers", order1)
		require.ErrorIs(t, out.Err, onceward.ErrAnswerGone)
		require.ErrorIs(t, l.Asks("invoice-1", "/transfers", order1).Err, onceward.ErrAnswerGone, "it can't be read yet")
		hidden = false
		require.ErrorIs(t, l.Asks("invoice-1", "/transfers", order1).Err, onceward.ErrAnswerGone, "it is looked for once a minute")
		l.Runs(time.Minute)
		showing(t, l.Asks("invoice-1", "/transfers", order1), "obj_1")
		op := l.Stands("invoice-1")
		assert.Equal(t, "transfer obj_1", op.Object)
		assert.True(t, op.Answer.Found)
		assert.True(t, op.Answer.Replaced.Cut)
		assert.Empty(t, op.Attention)
		looks := op.Looks
		showing(t, l.Asks("invoice-1", "/transfers", order1), "obj_1")
		assert.Equal(t, looks, l.Stands("invoice-1").Looks, "nobody looks for it any more")
		l.Truly()
	})
	virtual(t, "by Reconcile", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		l.Box.Script(providertest.CutAt(5))
		require.ErrorIs(t, l.Asks("invoice-1", "/transfers", order1).Err, onceward.ErrAnswerGone)
		op, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
		require.NoError(t, err)
		assert.Contains(t, string(op.Answer.Body), "obj_1")
		l.Truly()
	})
}

// A resolution by hand names no object, and counts like an answer without one. So does an operation whose answer was
// reaped, whose request is unknown.
func TestLookupBesideAResolution(t *testing.T) {
	t.Parallel()
	for _, row := range alikes {
		for _, reaped := range []bool{false, true} {
			virtual(t, row.name, func(t *testing.T) {
				cfg := onceward.Config{}
				if reaped {
					cfg.Keep, cfg.Reconcile = time.Hour, &onceward.Reconcile{Schedule: []time.Duration{3 * time.Hour}}
				}
				l := atBank(t, cfg, row.table)
				l.Box.Script(providertest.DropAfter())
				require.Error(t, l.Asks("invoice-1", row.path, order1).Err)
				op := l.Stands("invoice-1")
				_, err := l.Resolve(t.Context(), op.Seen, onceward.Executed, onceward.ResolveOptions{By: "ann", Why: "seen"})
				require.NoError(t, err)
				l.Box.Script(providertest.DropBefore())
				require.Error(t, l.Asks("invoice-2", row.path, order1).Err)
				l.Runs(24 * time.Hour)
				assert.Equal(t, reaped, l.Recorded(onceward.Ref{ID: "invoice-1"}).Tombstone)
				assert.Equal(t, onceward.StateUnknown, l.Stands("invoice-2").State)
				assert.NotContains(t, latest(l.Stands("invoice-2")).Why, "panicked")
				l.Truly()
			})
		}
	}
}

// A payment with a carried key is looked up by that key, even if a later call carries another.
func TestLookupUnderACarriedKey(t *testing.T) {
	listens := func(l *teller) (keys *[]string) {
		keys = new([]string)
		l.Fakes(func(r *http.Request) *http.Response {
			if r.Method == http.MethodGet && r.URL.Path == "/payments" {
				*keys = append(*keys, r.URL.Query().Get("key"))
			}
			return nil
		})
		return keys
	}
	virtual(t, "without a name", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		looked := listens(l)
		l.Box.Script(providertest.DropAfter())
		ask := func() outcome {
			return l.Ask(t.Context(), to(http.MethodPost, l.Box.URL+"/payments"), body(`{"amount":10}`), with("Content-Type", "application/json"), carrying("sdk-1"))
		}
		require.ErrorIs(t, ask().Err, onceward.ErrOutcomeUnknown)
		l.Runs(time.Minute)
		showing(t, ask(), "obj_1")
		assert.Equal(t, []string{"sdk-1"}, *looked)
		assert.Equal(t, 1, l.Effects())
		l.Truly()
	})
	virtual(t, "asked for with another", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		looked := listens(l)
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Pays("invoice-1", carrying("sdk-1")).Err, onceward.ErrOutcomeUnknown)
		require.NoError(t, l.Pays("another's", carrying("sdk-2")).Err)
		showing(t, l.Pays("invoice-1", carrying("sdk-3")), "obj_1")
		assert.Equal(t, []string{"sdk-1"}, *looked)
		assert.Equal(t, 2, l.Effects())
		l.Truly()
	})
	virtual(t, "in another account", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, func(p *providers.Provider) { p.Identity = providers.Identity{} })
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Pays("invoice-1", carrying("sdk-1")).Err, onceward.ErrOutcomeUnknown)
		theirs := with("Authorization", "Bearer another")
		showing(t, another(t, l.Box, onceward.Config{}).Pays("theirs", theirs, carrying("sdk-1")), "obj_2")
		require.ErrorIs(t, l.Pays("invoice-1", theirs).Err, onceward.ErrOutcomeUnknown, "the same key may be another's there")
		l.Runs(time.Minute)
		assert.Equal(t, "payment obj_1", l.Stands("invoice-1").Object)
	})
}

// A similar operation in another account or mode does not compete for the object.
func TestLookupBesideAnotherMode(t *testing.T) {
	for _, row := range []struct {
		name, first, second string
		unnamed, rivals     bool // the credential's account is not known; the first may have made the object
	}{
		{"of one account and mode", "Bearer sk_live_1", "Bearer sk_live_1", false, true},
		{"of two accounts", "Bearer sk_live_1", "Bearer sk_live_2", false, false},
		{"of two that are not known", "Bearer sk_live_1", "Bearer sk_live_2", true, true},
		{"of two modes", "Bearer sk_live_1", "Bearer sk_test_1", true, false},
		{"of two modes, the other way round", "Bearer sk_test_1", "Bearer sk_live_1", true, false},
		{"where the first shows no mode", "Bearer other", "Bearer sk_live_1", true, true},
		{"where the second shows no mode", "Bearer sk_live_1", "Bearer other", true, true},
	} {
		virtual(t, row.name, func(t *testing.T) {
			token := row.first
			l := atBank(t, onceward.Config{Authorize: func(r *http.Request) error {
				r.Header.Set("Authorization", token)
				return nil
			}}, func(p *providers.Provider) {
				p.CredentialModes = []providers.CredentialMode{{Prefix: "sk_live_", Mode: "live"}, {Prefix: "sk_test_", Mode: "test"}}
				if row.unnamed {
					p.Identity = providers.Identity{}
				}
			})
			l.Box.Script(providertest.DropBefore(), providertest.DropAfter())
			require.ErrorIs(t, l.Asks("first", "/transfers", order1).Err, onceward.ErrOutcomeUnknown)
			token = row.second
			require.ErrorIs(t, l.Asks("second", "/transfers", order1).Err, onceward.ErrOutcomeUnknown)
			_, _ = l.Reconcile(t.Context(), onceward.Ref{ID: "second"})
			op := l.Stands("second")
			assert.Equal(t, row.rivals, op.State == onceward.StateUnknown, latest(op).Why)
			assert.Equal(t, row.rivals, latest(op).Finding == journal.FindingAmbiguous)
		})
	}
}

// The answer of Config.Reconcile.Lookup is recorded if a caller can get it. Otherwise only the place of the object is.
func TestLookupThatGivesAnAnswer(t *testing.T) {
	const text = `{"id":"x-1"}`
	whole := func(status int) *onceward.Answer { return &onceward.Answer{Status: status, Body: []byte(text)} }
	for _, row := range []struct {
		name   string
		answer *onceward.Answer
		table  func(*providers.Provider) // of the process that looks
		most   int64
		at     string
		kept   bool
	}{
		{"whole", whole(200), nil, 0, "/payments", true},
		{"of an invalid status", whole(199), nil, 0, "/payments", false},
		{"of the last status", whole(599), nil, 0, "/payments", true},
		{"of a status beyond", whole(600), nil, 0, "/payments", false},
		{"as large as may be", whole(200), nil, int64(len(text)), "/payments", true},
		{"larger", whole(200), nil, int64(len(text)) - 1, "/payments", false},
		{"only where it is", &onceward.Answer{Status: 200, Omitted: true, Pointer: "x-1"}, nil, 0, "/payments", false},
		{"that is a secret", whole(200), func(p *providers.Provider) { p.Endpoints[0].SecretResponse = true }, 0, "/payments", false},
		{"to a request that another row covers by now", whole(200), func(p *providers.Provider) { p.Endpoints[0].Pattern, p.Events = "POST /{what}", nil }, 0, "/payments", false},
		{"to a request that no table covers", whole(200), nil, 0, "https://elsewhere.example/payments", true},
	} {
		virtual(t, row.name, func(t *testing.T) {
			hook := func(context.Context, onceward.Operation) (onceward.Finding, error) {
				return onceward.Finding{Found: journal.FindingTookEffect, Object: "payment x-1", Answer: row.answer}, nil
			}
			j := memory.New()
			first := atBank(t, onceward.Config{Journal: j}, func(p *providers.Provider) { p.Endpoints[0].Lookups = nil })
			first.Fakes(func(r *http.Request) *http.Response {
				if r.URL.Host == "elsewhere.example" {
					return answers(500, "")
				}
				return nil
			})
			adjust := row.table
			if adjust == nil {
				adjust = func(*providers.Provider) {}
			}
			l := another(t, first.Box, onceward.Config{Journal: j, MaxResponseBody: row.most, Reconcile: &onceward.Reconcile{Lookup: hook}}, adjust)
			first.Box.Script(providertest.DropAfter())
			options := []option{body(`{"amount":10}`), with("Content-Type", "application/json")}
			if strings.HasPrefix(row.at, "/") {
				options = append(options, to(http.MethodPost, first.Box.URL+row.at))
			} else {
				options = append(options, to(http.MethodPost, row.at))
			}
			require.ErrorIs(t, first.Ask(named(t, "invoice-1"), options...).Err, onceward.ErrOutcomeUnknown)
			_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
			require.NoError(t, err)
			op := l.Stands("invoice-1")
			require.Equal(t, onceward.StateCompleted, op.State)
			assert.Equal(t, journal.BasisPerson, latest(op).Basis)
			assert.Equal(t, !row.kept, op.Answer.Omitted)
			if row.kept {
				assert.Equal(t, text, string(op.Answer.Body))
				assert.Equal(t, row.answer.Status, op.Answer.Status)
			} else {
				assert.Empty(t, op.Answer.Body)
				assert.Contains(t, op.Answer.Pointer, "x-1")
			}
		})
	}
}

// If Config.Reconcile.Lookup names only an id, the object has the kind of the operation's row, among several rows with
// the same path.
func TestLookupThatNamesAnIDOnly(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		hook := func(context.Context, onceward.Operation) (onceward.Finding, error) {
			return onceward.Finding{Found: journal.FindingTookEffect, Object: "x-1"}, nil
		}
		l := atBank(t, onceward.Config{Reconcile: &onceward.Reconcile{Lookup: hook}}, func(p *providers.Provider) {
			e := p.Endpoints[0]
			e.Lookups = nil
			p.Endpoints, p.Events = nil, nil
			for _, kind := range []string{"payment", "refund"} {
				e.Action, e.Object = providers.Action{Place: providers.ActionHeader, Name: "X-Action", Value: kind}, kind
				p.Endpoints = append(p.Endpoints, e)
			}
		})
		for i, kind := range []string{"payment", "refund"} {
			l.Box.Script(providertest.DropAfter())
			name := fmt.Sprint("invoice-", i)
			require.ErrorIs(t, l.Pays(name, with("X-Action", kind)).Err, onceward.ErrOutcomeUnknown)
			_, err := l.Reconcile(t.Context(), onceward.Ref{ID: name})
			require.NoError(t, err)
			assert.Equal(t, kind+" x-1", l.Stands(name).Object)
		}
	})
}

// A look-up with a body is sent as declared, and Authorize can read the body.
func TestLookupWithABody(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		var signed, sent []string
		read := func(r *http.Request) string {
			text, err := io.ReadAll(r.Body)
			assert.NoError(t, err)
			assert.EqualValues(t, len(text), r.ContentLength)
			return string(text)
		}
		l := atBank(t, onceward.Config{Authorize: func(r *http.Request) error {
			if _, looks := onceward.LookOf(r.Context()); looks && r.Method == http.MethodPost {
				signed = append(signed, read(r))
			}
			r.Header.Set("Authorization", tellerToken)
			return nil
		}}, func(p *providers.Provider) {
			look := &p.Endpoints[0].Lookups[0]
			look.Method, look.Path, look.Query, look.Body = http.MethodPost, "/payments/search", "", `{"key":"{key}"}`
			look.Next = providers.Paging{}
			p.Endpoints = append(p.Endpoints, providers.Endpoint{Pattern: "POST /payments/search", NoEffect: true, Source: "made up"})
		})
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Pays("invoice-1", with("Prefer", "return=minimal")).Err, onceward.ErrOutcomeUnknown)
		op := l.Stands("invoice-1")
		l.Fakes(func(r *http.Request) *http.Response {
			if r.URL.Path != "/payments/search" {
				return nil
			}
			sent = append(sent, read(r))
			assert.Empty(t, r.Header.Get("Prefer"), "that is of the payment")
			assert.Equal(t, "application/json", r.Header.Get("Accept"))
			return answers(200, fmt.Sprintf(`{"data":[{"id":"obj_1","idempotency_key":%q,"status":"succeeded","created":%d}]}`, op.Key, time.Now().Unix()))
		})
		_, err := l.Reconcile(t.Context(), op.Ref)
		require.NoError(t, err)
		want := []string{fmt.Sprintf(`{"key":%q}`, op.Key)}
		assert.Equal(t, want, signed)
		assert.Equal(t, want, sent)
		assert.Equal(t, "payment obj_1", l.Stands("invoice-1").Object)
	})
}

// A client without look-ups recorded the operation. If the provider scopes keys to the credential, the operation
// belongs to that credential's account.
func TestLookupUnderTheCredentialOfAPlainClient(t *testing.T) {
	for name, scoped := range map[string]bool{"keys belong to the account": false, "keys belong to the credential": true} {
		virtual(t, name, func(t *testing.T) {
			l := atBank(t, onceward.Config{}, func(p *providers.Provider) { p.Identity, p.CredentialScoped = providers.Identity{}, scoped })
			plain := l.Beside(nil, once, nil)
			l.Box.Script(providertest.DropAfter())
			require.ErrorIs(t, plain.Pays("invoice-1", carrying("k-1")).Err, onceward.ErrOutcomeUnknown)
			_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
			require.NoError(t, err, latest(l.Stands("invoice-1")).Why)
			assert.Equal(t, "payment obj_1", l.Stands("invoice-1").Object)
			l.Truly()
		})
	}
}

// A random key proves its operation, whichever credential reads the object. A key that is derived from a name does not.
func TestLookupUnderAnotherCredential(t *testing.T) {
	for name, secret := range map[string][]byte{"a key at random": nil, "a key that follows from the name": testSecret} {
		virtual(t, name, func(t *testing.T) {
			l := atBank(t, onceward.Config{Secret: secret}, func(p *providers.Provider) { p.Identity = providers.Identity{} })
			l.Box.Script(providertest.DropAfter())
			require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
			key := l.Stands("invoice-1").Key
			l.Fakes(func(r *http.Request) *http.Response {
				if r.Method != http.MethodGet {
					return nil
				}
				return answers(200, fmt.Sprintf(`{"data":[{"id":"obj_1","idempotency_key":%q,"status":"succeeded","created":%d}],"has_more":false}`, key, time.Now().Unix()))
			})
			out := l.Pays("invoice-1", with("Authorization", "Bearer another"))
			assert.Equal(t, secret == nil, out.Err == nil, out.Err)
			assert.Equal(t, secret == nil, l.Stands("invoice-1").State == onceward.StateCompleted)
		})
	}
}

// One credential may act for several accounts, which a header names. The account is requested for each.
func TestLookupForEachAccountOfACredential(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, func(p *providers.Provider) { p.AccountHeaders = []string{"Bank-Account"} })
		l.Fakes(func(r *http.Request) *http.Response {
			if r.URL.Path == "/me" {
				return answers(200, fmt.Sprintf(`{"account":{"id":"acct_%s"}}`, r.Header.Get("Bank-Account")))
			}
			return nil
		})
		for i, account := range []string{"a", "b", ""} {
			name := "invoice-" + account
			l.Box.Script(providertest.DropAfter())
			require.ErrorIs(t, l.Pays(name, func(r *http.Request) {
				if account != "" {
					r.Header.Set("Bank-Account", account)
				}
			}).Err, onceward.ErrOutcomeUnknown)
			assert.Equal(t, "acct_"+account, l.Recorded(onceward.Ref{ID: name}).Account)
			_, err := l.Reconcile(t.Context(), onceward.Ref{ID: name})
			require.NoError(t, err, latest(l.Stands(name)).Why)
			assert.Equal(t, fmt.Sprint("payment obj_", i+1), l.Stands(name).Object)
		}
		assert.Equal(t, 3, l.Effects())
	})
}

// The evidence has the look-up that found nothing, rather than another one that failed.
func TestLookupWithoutAFindingCounts(t *testing.T) {
	for _, fails := range []string{"key", "all"} {
		virtual(t, fails+" fails", func(t *testing.T) {
			l := atBank(t, onceward.Config{}, func(p *providers.Provider) {
				second := p.Clone().Endpoints[0].Lookups[0]
				second.Query = "all={key}&limit=100"
				p.Endpoints[0].Lookups = append(p.Endpoints[0].Lookups, second)
			})
			l.Box.Script(providertest.DropBefore())
			require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
			l.Fakes(func(r *http.Request) *http.Response {
				if r.URL.Query().Has(fails) {
					return answers(http.StatusInternalServerError, "")
				}
				return nil
			})
			_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
			require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
			assert.Equal(t, http.StatusOK, latest(l.Stands("invoice-1")).Status)
		})
	}
}

// The evidence names the list that was read, without its query.
func TestEvidenceNamesTheReadList(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		l.Loses("invoice-1", providertest.DropBefore())
		_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		e := latest(l.Stands("invoice-1"))
		assert.Equal(t, "GET "+l.Box.URL+"/payments", e.Target)
		assert.Equal(t, "made up", e.Rule)
	})
	virtual(t, "or that there is nothing to look by", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, func(p *providers.Provider) { p.Endpoints[0].Lookups = nil })
		l.Loses("invoice-1", providertest.DropBefore())
		_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		assert.Contains(t, latest(l.Stands("invoice-1")).Why, "the provider's table has no look-up for this request: declare one")
	})
}

// Once an object is found, no further request is made.
func TestLookupEndsOnceItIsFound(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		asked, hooked := 0, 0
		l := atBank(t, onceward.Config{Reconcile: &onceward.Reconcile{Lookup: func(context.Context, onceward.Operation) (onceward.Finding, error) {
			hooked++
			return onceward.Finding{}, nil
		}}}, func(p *providers.Provider) {
			second := p.Clone().Endpoints[0].Lookups[0]
			second.Query = "all=1&" + second.Query
			p.Endpoints[0].Lookups = append(p.Endpoints[0].Lookups, second)
		})
		l.Loses("invoice-1", providertest.DropAfter())
		l.Fakes(func(r *http.Request) *http.Response {
			if r.Method == http.MethodGet && r.URL.Path == "/payments" {
				asked++
			}
			return nil
		})
		_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
		require.NoError(t, err)
		assert.Equal(t, 1, asked)
		assert.Zero(t, hooked)
	})
}

// If an object is larger than a recorded answer may be, only its name is recorded.
func TestLookupThatFindsALargeObject(t *testing.T) {
	found := func(t *testing.T, most int64) *onceward.Answer {
		l := atBank(t, onceward.Config{MaxResponseBody: most})
		l.Loses("invoice-1", providertest.DropAfter())
		op, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
		require.NoError(t, err)
		require.NotNil(t, op.Answer)
		assert.Equal(t, "obj_1", op.Answer.Pointer)
		return op.Answer
	}
	virtual(t, "", func(t *testing.T) {
		whole := found(t, 0)
		require.NotEmpty(t, whole.Body)
		length := int64(len(whole.Body))
		assert.Len(t, found(t, length).Body, int(length))
		larger := found(t, length-1)
		assert.Empty(t, larger.Body)
		assert.True(t, larger.Omitted)
	})
}

// The evidence says whether the key, a reference or only other fields match an object to its operation.
func TestEvidenceNamesTheMatchedMark(t *testing.T) {
	for _, row := range []struct {
		name, path string
		table      func(*providers.Provider)
		basis      journal.Basis
	}{
		{"by key", "/payments", func(*providers.Provider) {}, journal.BasisKey},
		{"by the caller's reference, which no other operation had", "/transfers", func(*providers.Provider) {}, journal.BasisReference},
		{"by time", "/transfers", byTime, journal.BasisFields},
		{"by parent, in a list", "/accounts/a/transfers", byParent, journal.BasisFields},
		{"by parent, which has one", "/orders/7/capture", func(p *providers.Provider) {
			p.Endpoints = append(p.Endpoints, providers.Endpoint{
				Pattern: "POST /orders/{order}/capture", Object: "capture", Source: "made up",
				Lookups: []providers.Lookup{{
					By: providers.ByParent, Path: "/orders/{path.order}/captured", ID: "id", Created: "created",
					Means: p.Endpoints[0].Lookups[0].Means, Source: "made up",
				}},
			})
		}, journal.BasisReference},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := atBank(t, onceward.Config{}, row.table)
			l.Box.Script(providertest.DropAfter())
			require.ErrorIs(t, l.Asks("invoice-1", row.path, `{"amount":10,"external_id":"order-1"}`).Err, onceward.ErrOutcomeUnknown)
			_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
			assert.Equal(t, row.basis == journal.BasisFields, errors.Is(err, onceward.ErrOutcomeUnknown), "without a mark it is a candidate")
			assert.Equal(t, row.basis, latest(l.Stands("invoice-1")).Basis)
		})
	}
}

// Calls of Config.Reconcile.Lookup do not get the operation name in the context of the caller of Reconcile.
func TestLookupThatCallsItself(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		var l *teller
		l = atBank(t, onceward.Config{Reconcile: &onceward.Reconcile{Lookup: func(ctx context.Context, _ onceward.Operation) (onceward.Finding, error) {
			return onceward.Finding{}, l.Posts(ctx, "/payments", `{"amount":1}`)
		}}})
		l.Loses("invoice-1", providertest.DropBefore())
		_, err := l.Reconcile(named(t, "asked"), onceward.Ref{ID: "invoice-1"})
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		require.Equal(t, 1, l.Effects())
		_, err = l.Operation(t.Context(), onceward.Ref{ID: "asked"})
		require.ErrorIs(t, err, onceward.ErrNotFound)
	})
}

// Config.Reconcile.Lookup may find that an undo took effect. Its "absent" frees an undo no more than a table's does.
func TestLookupHookOfAnUndo(t *testing.T) {
	for _, row := range []struct {
		finding onceward.Finding
		why     []string // of the operations that stay unknown
	}{
		{onceward.Finding{Found: journal.FindingTookEffect, Object: "transfer obj_2"}, nil},
		{onceward.Finding{Found: journal.FindingAbsent}, []string{"Config.Reconcile.Lookup names no object, or says of an undo that it is absent"}},
	} {
		virtual(t, row.finding.Found.String(), func(t *testing.T) {
			hook := &onceward.Reconcile{Lookup: func(context.Context, onceward.Operation) (onceward.Finding, error) { return row.finding, nil }}
			l := tellerOfFlows(t, openBank(t, func(p *providers.Provider) { p.Endpoints[1].Lookups = nil }), onceward.Config{Reconcile: hook})
			ship := flow.Define("ship", 1, func(ctx context.Context, _ string) (string, error) {
				_, err := flow.Step(ctx, "charge", func(ctx context.Context) (string, error) { return "paid", l.Posts(ctx, "/payments", `{"amount":10}`) },
					flow.WithUndo(func(ctx context.Context, _ string) error { return l.Posts(ctx, "/transfers", order1) }))
				return "", cmp.Or(err, flow.GiveUp(errors.New("sold out")))
			})
			require.NoError(t, l.Flows.Register(ship))
			l.Box.Script(providertest.None(), providertest.DropAfter())
			_, err := ship.Run(t.Context(), l.Flows, "order-1", "x")
			require.Error(t, err)
			l.Runs(time.Minute)
			var why []string
			for op, err := range l.Operations(t.Context(), onceward.Filter{States: []onceward.State{onceward.StateUnknown}}) {
				require.NoError(t, err)
				why = append(why, latest(op).Why)
			}
			assert.Equal(t, row.why, why)
			assert.Equal(t, 2, l.Effects())
		})
	}
}

// A listed object that can't be fetched, because the request lacks a part of its path, is not matched by the list
// alone.
func TestLookupThatCannotGetTheObject(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, func(p *providers.Provider) { p.Endpoints[0].Lookups[0].Fetch = "/shops/{request.shop}/payments/{id}" })
		l.Loses("invoice-1", providertest.DropAfter())
		_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		assert.Equal(t, journal.FindingInconclusive, latest(l.Stands("invoice-1")).Finding)
	})
}
