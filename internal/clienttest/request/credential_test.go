package request_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

func user(credential string) option {
	return func(r *http.Request) { r.SetBasicAuth(credential, "") }
}

// A live charge does not get a test charge's answer, and a test charge is not sent live.
func TestModeLiveAndTest(t *testing.T) {
	t.Parallel()
	each(t, "asked with another mode: nothing is sent, and no answer returned", func(t *testing.T, j machine.Store) {
		l := &line{}
		p := start(t, l, onceward.Config{Journal: j, Providers: modes()})
		for _, ctx := range []struct {
			name    string
			options []option
		}{{name: "invoice-1"}, {options: []option{carrying("k-1")}}} {
			c := t.Context()
			if ctx.name != "" {
				c = named(t, ctx.name)
			}
			before := len(l.Sent())
			require.NoError(t, p.Ask(c, append(ctx.options, bearer("sk_test_1"))...).Err)
			for _, live := range []option{bearer("sk_live_1"), user("sk_live_1")} {
				out := p.Ask(c, append(ctx.options, live)...)
				require.ErrorIs(t, out.Err, onceward.ErrKeyReused)
				var e *onceward.Error
				require.True(t, errors.As(out.Err, &e))
				assert.Equal(t, []string{"mode"}, e.Differs)
				assert.Nil(t, e.Operation.Answer)
				assert.NotContains(t, out.Err.Error(), "sk_")
			}
			for _, same := range []option{user("sk_test_2"), bearer("unmarked"), func(*http.Request) {}} {
				out := p.Ask(c, append(ctx.options, same)...)
				require.NoError(t, out.Err, "the same mode, or one that can't be told")
				assert.True(t, out.Op.Replayed)
			}
			assert.Len(t, l.Sent(), before+1)
		}
	})

	each(t, "by Authorize", func(t *testing.T, j machine.Store) {
		l := &line{}
		as := func(credential string) *process {
			return start(t, l, onceward.Config{Journal: j, Providers: modes(), Authorize: func(r *http.Request) error {
				r.Header.Set("Authorization", "Bearer "+credential)
				return nil
			}})
		}
		require.NoError(t, as("sk_test_1").Ask(named(t, "invoice-1")).Err)
		require.ErrorIs(t, as("sk_live_1").Ask(named(t, "invoice-1")).Err, onceward.ErrKeyReused)
		assert.Len(t, l.Sent(), 1)
	})

	each(t, "a pending one is not sent in the other mode", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(loses())
		p := start(t, l, onceward.Config{Journal: j, Providers: modes(), Backoff: once})
		out := p.Ask(named(t, "invoice-1"), bearer("sk_test_1"))
		require.ErrorIs(t, out.Err, onceward.ErrPending)
		pass(time.Until(out.Op.DueAt))
		require.ErrorIs(t, p.Ask(named(t, "invoice-1"), bearer("sk_live_1")).Err, onceward.ErrKeyReused)
		require.NoError(t, p.Ask(named(t, "invoice-1"), bearer("sk_test_1")).Err)
		assert.Len(t, l.Sent(), 2)
	})

	each(t, "one that is left open waits for its own mode, though the other is of another account", func(t *testing.T, j machine.Store) {
		tables := modes()
		tables[0].Identity = providers.Identity{Path: "/v1/account", Field: "id", Source: "made up"}
		open := true
		l := (&line{}).Always(reply{Answer: func(r *http.Request) (*http.Response, error) {
			switch {
			case r.Method == http.MethodGet:
				return says(200, fmt.Sprintf(`{"id":"acct_%d"}`, len(r.Header.Get("Authorization")))).Answer(r)
			case open:
				return loses().Answer(r)
			}
			return says(200, paid).Answer(r)
		}})
		p := start(t, l, onceward.Config{Journal: j, Providers: tables, Backoff: once, Reconcile: &onceward.Reconcile{}, Authorize: func(r *http.Request) error {
			if r.Header.Get("Authorization") == "" {
				r.Header.Set("Authorization", "Bearer sk_live_another")
			}
			return nil
		}})
		require.ErrorIs(t, p.Ask(named(t, "invoice-1"), bearer("sk_test_1")).Err, onceward.ErrPending)
		require.NotEmpty(t, p.Recorded(onceward.Ref{ID: "invoice-1"}).Account)
		open = false
		pass(time.Hour)
		require.NoError(t, p.Ask(named(t, "invoice-2")).Err, "so that it is known whose the other is")
		_, err := p.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, onceward.StatePending, p.Recorded(onceward.Ref{ID: "invoice-1"}).State)
		require.NoError(t, p.Ask(named(t, "invoice-1"), bearer("sk_test_1")).Err)
	})

	each(t, "a request under a test's credential answers no live call", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(takes(10*time.Second, says(200, paid)))
		p := start(t, l, onceward.Config{Journal: j, Providers: modes()})
		first := make(chan outcome, 1)
		go func() { first <- p.Ask(named(t, "invoice-1"), bearer("sk_test_1")) }()
		synctest.Wait()
		require.ErrorIs(t, p.Ask(named(t, "invoice-1"), bearer("sk_live_1")).Err, onceward.ErrKeyReused)
		require.NoError(t, (<-first).Err)
	})

	each(t, "a cancelled name may be taken", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(wrongKey)
		p := start(t, l, onceward.Config{Journal: j, Providers: modes()})
		p.Ask(named(t, "invoice-1"), bearer("sk_test_1"))
		require.Equal(t, onceward.StateCancelled, p.Recorded(onceward.Ref{ID: "invoice-1"}).State)
		require.NoError(t, p.Ask(named(t, "invoice-1"), bearer("sk_live_1")).Err)
		require.ErrorIs(t, p.Ask(named(t, "invoice-1"), bearer("sk_test_1")).Err, onceward.ErrKeyReused, "it is live now")
		assert.Len(t, l.Sent(), 2)
	})

	each(t, "no more than the mode is recorded", func(t *testing.T, j machine.Store) {
		p := start(t, &line{}, onceward.Config{Journal: j, Providers: modes()})
		require.NoError(t, p.Ask(named(t, "invoice-1"), bearer("sk_test_1")).Err)
		op := p.Recorded(onceward.Ref{ID: "invoice-1"})
		assert.Equal(t, "test", op.Mode)
		assert.NotContains(t, op.Credential, "sk_test")
	})
}

// One seller's answer is lost, and another seller's token asks for the same name. Square does not publish whether keys
// are per seller, so nothing is sent under the second token.
func TestSellersKeyUnderAnotherSellersToken(t *testing.T) {
	virtual(t, "Square", func(t *testing.T) {
		square := providers.Square(24 * time.Hour)
		for i := range square.Endpoints {
			if e := &square.Endpoints[i]; e.Pattern == "POST /v2/payments" {
				e.Remembers, e.InFlightGuard = providers.SuccessesCleanFailures, true
			}
		}
		l := (&line{}).Then(loses())
		p := start(t, l, onceward.Config{Providers: []providers.Provider{square}, Backoff: once})
		pay := []option{to(http.MethodPost, "https://connect.squareup.com/v2/payments"), jsonText(`{"amount_money":{"amount":100}}`)}
		require.ErrorIs(t, p.Ask(named(t, "order-1"), append(pay, with("Authorization", "Bearer seller_A"))...).Err, onceward.ErrPending)
		pass(time.Hour)
		out := p.Ask(named(t, "order-1"), append(pay, with("Authorization", "Bearer seller_B"))...)
		require.Error(t, out.Err)
		for _, sent := range l.Sent() {
			assert.Equal(t, "Bearer seller_A", sent.Header.Get("Authorization"))
		}
	})
}

// A credential in the query is not taken for the key beside it.
func TestCredentialBesideAKeyInTheQuery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := own(func(e *providers.Endpoint) { e.Key = providers.Key{Place: providers.KeyQuery, Name: "token_key"} })
		table.CredentialScoped = true
		at := func(credential string) option { return to("POST", ownURL+"?api_key="+credential) }
		l := (&line{}).Then(loses())
		p := start(t, l, onceward.Config{Providers: []providers.Provider{table}, Backoff: once})
		require.ErrorIs(t, p.Ask(named(t, invoice), at("a")).Err, onceward.ErrPending)
		pass(time.Minute)
		require.ErrorIs(t, p.Ask(named(t, invoice), at("b")).Err, onceward.ErrOutcomeUnknown)
		assert.Len(t, l.Sent(), 1)
		require.NoError(t, p.Ask(named(t, "another"), at("a")).Err)
	})
}

// A credential in the query is the same however it is escaped. Credentials that can't be decoded are compared as they
// are.
func TestCredentialEscapedInTheQuery(t *testing.T) {
	for _, row := range []struct {
		first, second string
		same          bool
	}{{"ab", "a%62", true}, {"ab", "a%63", false}, {"%zz1", "%zz1", true}, {"%zz1", "%zz2", false}} {
		virtual(t, row.first+" and "+row.second, func(t *testing.T) {
			table := own()
			table.CredentialScoped = true
			l := (&line{}).Then(loses())
			p := start(t, l, onceward.Config{Providers: []providers.Provider{table}, Backoff: once})
			require.ErrorIs(t, p.Ask(named(t, invoice), to("POST", ownURL+"?api_key="+row.first)).Err, onceward.ErrPending)
			pass(time.Minute)
			out := p.Ask(named(t, invoice), to("POST", ownURL+"?api_key="+row.second))
			assert.Equal(t, row.same, out.Err == nil, out.Err)
			assert.Equal(t, row.same, len(l.Sent()) == 2)
		})
	}
}

func TestACredentialThatShowsNoModeIsOfAny(t *testing.T) {
	t.Parallel()
	for _, credentials := range [][]string{{"sk_test_1", "of another kind"}, {"of another kind", "sk_test_1"}, {"sk_test_1", "sk_test_2"}} {
		each(t, credentials[0]+" and then "+credentials[1], func(t *testing.T, j machine.Store) {
			l := &line{}
			p := start(t, l, onceward.Config{Journal: j, Providers: modes()})
			for _, credential := range credentials {
				require.NoError(t, p.Ask(named(t, invoice), bearer(credential)).Err)
			}
			assert.Len(t, l.Sent(), 1)
		})
	}
}

// Authorize is called once for the record and once for each attempt, whatever the caller's own credential shows.
func TestCallsOfAuthorize(t *testing.T) {
	for name, credential := range map[string]string{"of a mode": "sk_test_1", "of none": "unmarked"} {
		virtual(t, name, func(t *testing.T) {
			calls := 0
			l := (&line{}).Then(loses())
			p := start(t, l, onceward.Config{Providers: modes(), Authorize: func(*http.Request) error { calls++; return nil }})
			require.NoError(t, p.Ask(named(t, invoice), bearer(credential)).Err)
			assert.Len(t, l.Sent(), 2)
			assert.Equal(t, 2, calls)
		})
	}
}

// A caller that waits for another call gets its answer if the credentials have the same mode, or one mode is unknown.
func TestWaiterUnderAnotherMode(t *testing.T) {
	for _, row := range []struct {
		first, second string
		is            error
	}{
		{"sk_test_1", "sk_test_2", nil},
		{"sk_test_1", "of another kind", nil},
		{"of another kind", "sk_test_1", nil},
		{"of another kind", "of another kind", nil},
		{"sk_test_1", "sk_live_1", onceward.ErrKeyReused},
	} {
		virtual(t, row.first+" and "+row.second, func(t *testing.T) {
			l := (&line{}).Always(takes(5*time.Second, says(200, paid)))
			p := start(t, l, onceward.Config{Providers: modes()})
			first := make(chan error, 1)
			go func() { first <- p.Ask(named(t, invoice), bearer(row.first)).Err }()
			pass(time.Second)
			out := p.Ask(named(t, invoice), bearer(row.second))
			require.NoError(t, <-first)
			require.ErrorIs(t, out.Err, row.is)
			other := p.Ask(named(t, invoice), bearer(row.second), body("amount=1"))
			var e *onceward.Error
			require.ErrorAs(t, other.Err, &e)
			assert.Equal(t, row.is != nil, slices.Contains(e.Differs, "mode"), e.Differs)
			assert.Len(t, l.Sent(), 1)
		})
	}
}

// The first attempt takes the request that was composed for the record, unless that request is a second old.
func TestRequestIsComposedAnewAfterASlowCommit(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l, calls := &line{}, 0
		p := start(t, l, onceward.Config{Journal: slowToBegin{memory.New(), time.Second}, Authorize: func(r *http.Request) error {
			calls++
			r.Header.Set("Authorization", fmt.Sprint("Bearer ", calls))
			return nil
		}})
		require.NoError(t, p.Ask(named(t, invoice)).Err)
		assert.Equal(t, 2, calls)
		assert.Equal(t, "Bearer 2", l.Sent()[0].Header.Get("Authorization"))
	})
	virtual(t, "another credential, if keys belong to the credential", func(t *testing.T) {
		scoped := providers.Stripe()
		scoped.CredentialScoped = true
		l, calls, rotates := &line{}, 0, true
		p := start(t, l, onceward.Config{Journal: slowToBegin{memory.New(), time.Second}, Providers: []providers.Provider{scoped}, Authorize: func(r *http.Request) error {
			if rotates {
				calls++
			}
			r.Header.Set("Authorization", fmt.Sprint("Bearer ", calls))
			return nil
		}})
		require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrNotSent)
		assert.Empty(t, l.Sent())
		rotates = false
		require.NoError(t, p.Ask(named(t, invoice)).Err)
		assert.Len(t, l.Sent(), 1)
	})
}

// slowFlow is a flow journal that needs time for an intent.
type slowFlow struct {
	slowToBegin
	machine.Flows
}

// A step without its credential waits for it. Nothing is cancelled, because the flow would be undone for that.
func TestAStepWithoutItsCredentialWaits(t *testing.T) {
	for _, row := range []struct {
		name    string
		fails   error
		changes bool  // between the intent and the attempt
		first   reply // to the request that is sent
		sent    int
	}{
		{name: "it can't be had", fails: errors.New("the vault is sealed")},
		{name: "there is none", fails: onceward.ErrCredentialMissing},
		{name: "it is refused", fails: onceward.ErrCredentialRefused},
		{name: "the provider refuses it", first: wrongKey, sent: 1},
		{name: "it is another by now", changes: true},
	} {
		virtual(t, row.name, func(t *testing.T) {
			fails, changes, asked := row.fails, row.changes, 0
			scoped := providers.Stripe()
			scoped.CredentialScoped = row.changes
			l := &line{}
			if row.sent > 0 {
				l.Then(row.first)
			}
			kept := machine.Store(memory.New())
			j := slowFlow{slowToBegin{Store: kept}, kept.(machine.Flows)}
			if row.changes {
				j.takes = time.Second
			}
			p := startFlows(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{scoped}, Authorize: func(r *http.Request) error {
				if changes {
					asked++
				}
				r.Header.Set("Authorization", fmt.Sprint("Bearer ", max(asked, 1)))
				return fails
			}})
			do := func(ctx context.Context) error { return flow.GiveUp(p.Sequence("charge")(ctx)) }
			require.Error(t, p.Flow(t.Context(), "order-1", nil, do))
			ops := p.Everything()
			require.Len(t, ops, 1)
			assert.Equal(t, journal.StatePending, ops[0].State)
			assert.True(t, ops[0].DueOwn, "the provider asked for no pause")
			assert.Len(t, l.Sent(), row.sent)
			fails, changes, asked = nil, false, 1
			pass(time.Hour)
			require.NoError(t, p.Flow(t.Context(), "order-1", nil, do))
			assert.Len(t, l.Sent(), row.sent+1)
		})
	}
}

// Two credentials are compared whole. Only the signature that AWS puts into Authorization, new for each request, is
// left out.
func TestCredentialThatLooksSigned(t *testing.T) {
	const signed = "AWS4-HMAC-SHA256 Credential=key/day, Signature="
	for _, row := range []struct {
		header, first, second string
		same                  bool
	}{
		{"Authorization", signed + "1", signed + "2", true},
		{"Authorization", "Own Credential=key/1", "Own Credential=key/2", false},
		{"X-Api-Key", signed + "1", signed + "2", false},
	} {
		virtual(t, row.header+" "+row.first, func(t *testing.T) {
			table := own()
			table.CredentialScoped = true
			l := (&line{}).Then(loses())
			p := start(t, l, onceward.Config{Providers: []providers.Provider{table}, Backoff: once})
			require.ErrorIs(t, p.Ask(named(t, invoice), toOwn, with(row.header, row.first)).Err, onceward.ErrPending)
			pass(time.Minute)
			out := p.Ask(named(t, invoice), toOwn, with(row.header, row.second))
			assert.Equal(t, row.same, out.Err == nil, out.Err)
			assert.Equal(t, row.same, len(l.Sent()) == 2)
		})
	}
}

// token returns a JSON Web Token with these claims.
func token(claims string) string {
	text := base64.RawURLEncoding.EncodeToString
	return "Bearer " + text([]byte(`{"alg":"ES256"}`)) + "." + text([]byte(claims)) + "." + text([]byte(claims+"signed"))
}

// A credential that is made anew for each request is the same one if the part that shows its owner is.
func TestCredentialMadeAnewForEachRequest(t *testing.T) {
	for _, row := range []struct {
		name          string
		first, second []option
		scoped, same  bool
	}{
		{"a token of the same subject",
			[]option{with("Authorization", token(`{"sub":"north","iss":"bank","iat":1,"exp":61,"jti":"a"}`))},
			[]option{with("Authorization", token(`{"sub":"north","iss":"bank","iat":9,"exp":69,"jti":"b"}`))}, false, true},
		{"a token of another subject",
			[]option{with("Authorization", token(`{"sub":"north","iat":1}`))}, []option{with("Authorization", token(`{"sub":"south","iat":1}`))}, false, false},
		{"a token for another account of its subject",
			[]option{with("Authorization", token(`{"sub":"me","acc":"north"}`))}, []option{with("Authorization", token(`{"sub":"me","acc":"south"}`))}, false, false},
		{"a token without a subject",
			[]option{with("Authorization", token(`{"iss":"bank","iat":1}`))}, []option{with("Authorization", token(`{"iss":"bank","iat":9}`))}, false, false},
		{"a token of the same subject, if keys belong to the token",
			[]option{with("Authorization", token(`{"sub":"north","iat":1}`))}, []option{with("Authorization", token(`{"sub":"north","iat":9}`))}, true, false},
		{"a signature beside the key's id",
			[]option{with("X-Api-Key", "north"), with("X-Signature", "1")}, []option{with("X-Api-Key", "north"), with("X-Signature", "2")}, false, true},
		{"a signature beside another key's id",
			[]option{with("X-Api-Key", "north"), with("X-Signature", "1")}, []option{with("X-Api-Key", "south"), with("X-Signature", "2")}, false, false},
		{"a signature that does not name its key", []option{with("X-Signature", "1")}, []option{with("X-Signature", "2")}, false, true},
		{"a signature by the same key",
			[]option{with("Signature", `keyId="north",created=1,signature="a"`)}, []option{with("Signature", `keyId="north",created=2,signature="b"`)}, false, true},
		{"a signature by another key",
			[]option{with("Signature-Input", `sig1=();created=1;keyid="north"`)}, []option{with("Signature-Input", `sig1=();created=1;keyid="south"`)}, false, false},
		{"a signature by another key, without quotes",
			[]option{with("X-Signature", "t=1,KeyID=north,s=1")}, []option{with("X-Signature", "t=1,KeyID=south,s=1")}, false, false},
		{"another payment by x402", []option{with("PAYMENT-SIGNATURE", "1")}, []option{with("PAYMENT-SIGNATURE", "2")}, false, false},
		{"another payment by x402, version 1", []option{with("X-PAYMENT", "1")}, []option{with("X-PAYMENT", "2")}, false, false},
		{"the same payment", []option{with("PAYMENT-SIGNATURE", "1")}, []option{with("PAYMENT-SIGNATURE", "1")}, false, true},
	} {
		virtual(t, row.name, func(t *testing.T) {
			table := own()
			table.CredentialScoped = row.scoped
			l := (&line{}).Then(loses())
			attempt := 0
			p := start(t, l, onceward.Config{Providers: []providers.Provider{table}, Authorize: func(r *http.Request) error {
				attempt++
				add := row.first
				if attempt > 1 {
					add = row.second
				}
				for _, o := range add {
					o(r)
				}
				return nil
			}})
			out := p.Ask(named(t, invoice), toOwn)
			if row.same {
				require.NoError(t, out.Err)
				assert.Len(t, l.Sent(), 2)
				return
			}
			require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
			require.ErrorContains(t, out.Err, "the credential is another one")
			assert.Len(t, l.Sent(), 1)
		})
	}
}

// The journal does not show that two operations have the same credential.
func TestCredentialInTheJournal(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		table := own()
		table.CredentialScoped = true
		p := start(t, &line{}, onceward.Config{Providers: []providers.Provider{table}})
		var digests []string
		for _, name := range []string{"a", "b"} {
			require.NoError(t, p.Ask(named(t, name), toOwn, bearer("s3cr3t")).Err)
			digest := p.Recorded(onceward.Ref{ID: name}).Credential
			digests = append(digests, digest[strings.LastIndexByte(digest, ':')+1:])
		}
		require.NotEmpty(t, digests[0])
		assert.NotEqual(t, digests[0], digests[1])
	})
}

// A caller that still waits for a credential when the client shuts down gets an error, and nothing is recorded.
func TestCredentialDuringShutdown(t *testing.T) {
	scoped := providers.Stripe()
	scoped.CredentialScoped = true
	for name, tables := range map[string][]providers.Provider{"for its mode": modes(), "for what its key is of": {scoped}} {
		virtual(t, name, func(t *testing.T) {
			l := &line{}
			p := start(t, l, onceward.Config{Providers: tables, Authorize: func(r *http.Request) error {
				<-r.Context().Done()
				return r.Context().Err()
			}})
			asked := make(chan outcome, 1)
			go func() { asked <- p.Ask(named(t, invoice)) }()
			synctest.Wait()
			_ = p.Shutdown(cancelled())
			require.ErrorIs(t, (<-asked).Err, onceward.ErrShutdown)
			assert.Empty(t, p.Everything())
			assert.Empty(t, l.Sent())
		})
	}
}

// A request that no contract covers has no mode, even at a provider's host.
func TestModeAtAPathThatIsNotListed(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		l := &line{}
		p := start(t, l, onceward.Config{Journal: j, Providers: modes()})
		for _, credential := range []string{"sk_test_1", "sk_live_1"} {
			require.NoError(t, p.Ask(named(t, invoice), to(http.MethodPost, "https://api.stripe.com/v1//charges"), bearer(credential)).Err)
		}
		assert.Len(t, l.Sent(), 1)
		op := p.Recorded(onceward.Ref{ID: invoice})
		assert.Empty(t, op.Mode)
		assert.Empty(t, op.Provider)
	})
}

// A query parameter is a credential even if the body's key field has the same name.
func TestCredentialThatIsCalledAsTheKey(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		table := own(func(e *providers.Endpoint) { e.Key = providers.Key{Place: providers.KeyJSONField, Name: "token"} })
		table.CredentialScoped = true
		l := (&line{}).Then(loses())
		p := start(t, l, onceward.Config{Providers: []providers.Provider{table}, Backoff: once})
		ask := func(credential string) error {
			return p.Ask(named(t, invoice), to(http.MethodPost, ownURL+"?token="+credential), jsonText(`{"n":1}`)).Err
		}
		require.ErrorIs(t, ask("a"), onceward.ErrPending)
		pass(time.Minute)
		require.ErrorIs(t, ask("b"), onceward.ErrOutcomeUnknown)
		assert.Len(t, l.Sent(), 1)
	})
}

// An operation of a known account is not sent under another account's credential.
func TestCredentialOfAnotherAccount(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, unlooked, func(p *providers.Provider) {
			e := &p.Endpoints[0]
			e.Retention, e.Remembers, e.InFlightGuard = 24*time.Hour, providers.Everything, true
		})
		l.Box.Script(providertest.DropBefore())
		require.ErrorIs(t, l.Pays(invoice, with("Authorization", "Bearer a")).Err, onceward.ErrPending)
		pass(time.Hour)
		err := l.Pays(invoice, with("Authorization", "Bearer b")).Err
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		assert.ErrorContains(t, err, "not the operation's")
	})
}
