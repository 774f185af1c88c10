package catchup_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
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
	"github.com/onceward/onceward/webhook"
)

// Rule 9: an event is of the source's account, even if it does not say so. An event from another account is refused.
func TestCatchUpKnowsTheAccountOfAnEvent(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := listing(t, onceward.Config{})
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Pays("invoice-1", with("Bank-Account", "acct_1")).Err, onceward.ErrOutcomeUnknown)
		l.happens("evt_1", "payment.succeeded", l.Stands("invoice-1").Key, "obj_1", time.Now()).account = "acct_1"
		alien := l.news("evt_2", time.Now())
		alien.account, alien.body = "acct_1", `{"account":"acct_2",`+alien.body[1:]
		pass(time.Hour)
		result, got, err := l.catches(time.Now().Add(-day), of("acct_1"))
		require.Error(t, err)
		assert.Equal(t, []string{"evt_1"}, got)
		require.Len(t, result.Failed, 1)
		assert.Contains(t, result.Failed[0].Err, "another account")
		assert.Equal(t, onceward.StateCompleted, l.Stands("invoice-1").State)
		assert.Equal(t, "acct_1", l.requests[0].Header.Get("Bank-Account"))
	})
	virtual(t, "of all accounts of an application", func(t *testing.T) {
		l := listing(t, onceward.Config{}, func(p *providers.Provider) { p.Feed.Owner = providers.OfApplication })
		for _, account := range []string{"acct_1", "acct_2"} {
			e := l.news("evt of "+account, time.Now())
			e.body = `{"account":"` + account + `",` + e.body[1:]
		}
		pass(time.Hour)
		_, got, err := l.catches(time.Now().Add(-day), of("acct_1"))
		require.NoError(t, err)
		assert.Equal(t, []string{"evt of acct_1"}, got)
		_, got, err = l.catches(time.Now().Add(-day))
		require.NoError(t, err)
		assert.Len(t, got, 2)
		_, _, err = l.catches(time.Now().Add(-day), func(o *onceward.CatchUp) { o.Scope = "tenant" })
		field(t, "Account", err)
	})
}

// Rule 10: a tenant's events are about the tenant's operations, though another tenant's object has the same id.
func TestCatchUpStaysInTheScope(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		perTenant := func(p *providers.Provider) {
			p.KeysPerScope = true
			p.Events = append(p.Events, providers.EventRule{
				Field: "type", Equals: "payment.refunded", Endpoint: "POST /payments", ID: "id", Object: "data.id", At: "created", Is: providers.Reversed, Source: "made up",
			})
		}
		l := listing(t, onceward.Config{}, perTenant)
		l.Fakes(func(r *http.Request) *http.Response {
			if r.Method == http.MethodPost {
				return answers(http.StatusOK, `{"id":"obj_7"}`)
			}
			return l.answer(r)
		})
		for _, tenant := range []string{"a", "b"} {
			ctx := onceward.WithOperation(onceward.WithScope(t.Context(), tenant), "invoice-1")
			require.NoError(t, l.asks(ctx, bearer(tenant)).Err)
		}
		l.happens("evt_1", "payment.refunded", "", "obj_7", time.Now())
		pass(time.Hour)
		var about []onceward.Operation
		l.handle = func(_ http.ResponseWriter, r *http.Request, _ string) { about = onceward.OperationsOf(r.Context()) }
		_, _, err := l.catches(time.Now().Add(-day), func(o *onceward.CatchUp) { o.Scope = "b" })
		require.NoError(t, err)
		require.Len(t, about, 1)
		assert.Equal(t, "b", about[0].Ref.Scope)
	})
}

// Rule 11: nothing is read with another account's credential.
func TestCatchUpProvesTheAccount(t *testing.T) {
	var scope, account string
	var lists, looks bool
	as := func(credential string) onceward.Config {
		return onceward.Config{Authorize: func(r *http.Request) error {
			scope, account, lists = onceward.CatchUpOf(r.Context())
			_, looks = onceward.LookOf(r.Context())
			r.Header.Set("Authorization", credential)
			return nil
		}}
	}
	own := func(p *providers.Provider) { p.Feed.Owner, p.AccountHeaders = providers.OfCredential, nil }
	from := func(o *onceward.CatchUp) { o.From = time.Now().Add(-day) }
	virtual(t, "of another account", func(t *testing.T) {
		l := listing(t, as("platform"), own)
		result, _, err := l.catches(time.Now(), of("acct_1"), from)
		require.ErrorContains(t, err, "it is of another account than acct_1")
		assert.Empty(t, l.requests)
		assert.WithinDuration(t, time.Now().Add(-day), result.Next, 0)
		assert.Equal(t, 1, l.named)
	})
	virtual(t, "of this account", func(t *testing.T) {
		l := listing(t, as("acct_1"), own)
		_, _, err := l.catches(time.Now(), of("acct_1"), from, func(o *onceward.CatchUp) { o.Scope = "a" })
		require.NoError(t, err)
		assert.NotEmpty(t, l.requests)
		assert.Equal(t, []any{"a", "acct_1", true, false}, []any{scope, account, lists, looks})
	})
	virtual(t, "of which the provider does not say whose it is", func(t *testing.T) {
		l := listing(t, as("acct_1"), own, func(p *providers.Provider) { p.Identity = providers.Identity{} })
		_, _, err := l.catches(time.Now(), of("acct_1"), from)
		field(t, "Account", err)
	})
	virtual(t, "that changes on the way", func(t *testing.T) {
		n := 0
		l := listing(t, onceward.Config{Authorize: func(r *http.Request) error {
			n++
			r.Header.Set("Authorization", fmt.Sprint("Bearer ", min(n, 3)))
			return nil
		}}, own)
		_, _, err := l.catches(time.Now(), from)
		require.ErrorContains(t, err, "another credential")
	})
}

// Rule 15: a source without an event is not taken for a quiet one.
func TestCatchUpWarnsOfAnEmptyList(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := listing(t, onceward.Config{})
		for range 2 {
			_, _, err := l.catches(time.Now().Add(-day))
			require.NoError(t, err)
		}
		assert.Equal(t, 1, strings.Count(l.Log.String(), "event=feed.empty"))
		assert.Contains(t, l.Log.String(), "a key that may read events")
	})
}

// Rule 16: an event proves something if it came from the provider's own host over verified TLS.
func TestCatchUpTakesEvidenceFromTheProviderAlone(t *testing.T) {
	virtual(t, "an unproven way", func(t *testing.T) {
		l := listing(t, onceward.Config{})
		l.insecure = true
		l.Loses("invoice-1", providertest.DropAfter())
		l.happens("evt_1", "payment.succeeded", l.Stands("invoice-1").Key, "obj_1", time.Now())
		var m webhook.Message
		l.handle = func(_ http.ResponseWriter, r *http.Request, _ string) { m, _ = webhook.MessageOf(r.Context()) }
		pass(time.Hour)
		_, got, err := l.catches(time.Now().Add(-day))
		require.NoError(t, err)
		assert.Len(t, got, 1)
		assert.False(t, m.Evidence)
		assert.Equal(t, onceward.StateUnknown, l.Stands("invoice-1").State)
	})
	for name, verifies := range map[string]bool{"a verified server": true, "an unverified server": false} {
		t.Run(name, func(t *testing.T) {
			at := time.Now().Add(-time.Hour)
			srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/events" {
					http.Redirect(w, r, "/events", http.StatusFound)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"data":[{"id":"evt_1","type":"a","created":%d}],"has_more":false}`, at.Unix())
			}))
			t.Cleanup(srv.Close)
			hc := srv.Client()
			if !verifies {
				hc.Transport.(*http.Transport).TLSClientConfig.InsecureSkipVerify = true
			}
			to, err := url.Parse(srv.URL)
			require.NoError(t, err)
			p := bank()
			p.Hosts, p.Feed = []string{to.Host}, feedOf(to.Host)
			p.Feed.Owner = providers.OfCredential
			j := memory.New()
			client, err := onceward.New(onceward.Config{Journal: j, Providers: []providers.Provider{p}, HTTPClient: hc, Reconcile: &onceward.Reconcile{}})
			require.NoError(t, err)
			t.Cleanup(func() { _ = client.Close() })
			var m webhook.Message
			h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { m, _ = webhook.MessageOf(r.Context()) })
			result, err := client.CatchUp(t.Context(), "bank", onceward.CatchUp{From: at, Types: []string{"*"}, Handler: h})
			require.NoError(t, err)
			assert.Equal(t, 1, result.Handled)
			assert.Equal(t, verifies, m.Evidence)
		})
	}
	virtual(t, "a redirect", func(t *testing.T) {
		l := listing(t, onceward.Config{})
		l.refuse = func(*http.Request) *http.Response {
			resp := answers(http.StatusFound, "")
			resp.Header.Set("Location", "https://elsewhere.example/events")
			return resp
		}
		_, _, err := l.catches(time.Now().Add(-day))
		require.ErrorContains(t, err, "the provider answered 302")
	})
}

// copied is a journal that was restored from a backup.
type copied struct{ *memory.Journal }

func (j copied) RecordEvent(context.Context, machine.Heard, []machine.Event) ([]machine.Result, bool, error) {
	return nil, false, journal.ErrRestored
}

// Rule 19: a journal copy reads nothing.
func TestCatchUpOfACopiedJournal(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := listing(t, onceward.Config{Journal: copied{memory.New()}})
		from := time.Now().Add(-day)
		result, _, err := l.catches(from)
		require.ErrorIs(t, err, journal.ErrRestored)
		assert.Empty(t, l.requests)
		assert.Zero(t, l.named)
		assert.WithinDuration(t, from, result.Next, 0)
	})
}
