package background_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/internal/sample"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// office is a program that pays at a bank, release after release. Each release has a separate credential. The account
// of the credential "north-1" is "north".
type office struct {
	t   *testing.T
	box *providertest.Server
	cfg onceward.Config

	sealed atomic.Bool // the bank does not say whose a credential is
	down   atomic.Bool // there is no connection to the bank
}

func openOffice(t *testing.T, cfg onceward.Config, adjust ...func(*providers.Provider)) *office {
	t.Helper()
	remembers := func(p *providers.Provider) {
		e := &p.Endpoints[0]
		e.Retention, e.Remembers, e.InFlightGuard, e.Lookups = 24*time.Hour, providers.Everything, true, nil
	}
	o := &office{t: t, box: oncetest.OpenBank(t, append(adjust, remembers)...), cfg: cfg}
	o.box.Account = func(r providertest.Request) string {
		account, _, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), "-")
		return account
	}
	if o.cfg.Journal == nil {
		o.cfg.Journal = memory.New()
	}
	o.cfg.Providers, o.cfg.Backoff = []providers.Provider{o.box.Provider()}, once
	return o
}

func unidentified(p *providers.Provider) { p.Identity = providers.Identity{} }

// release starts a process whose requests have the given credential.
func (o *office) release(credential string) *process {
	via, cfg := o.of(credential)
	return start(o.t, via, cfg)
}

func (o *office) of(credential string) (http.RoundTripper, onceward.Config) {
	via := oncetest.RoundTrip(func(r *http.Request) (*http.Response, error) {
		switch {
		case o.down.Load():
			return nil, onceward.NotSent(errors.New("no connection"))
		case r.URL.Path == "/me" && o.sealed.Load():
			resp := oncetest.Answers(http.StatusServiceUnavailable, `{}`)
			resp.Request = r
			return resp, nil
		}
		return o.box.Client().Transport.RoundTrip(r)
	})
	cfg := o.cfg
	cfg.Authorize = func(r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+credential)
		return nil
	}
	return via, cfg
}

func (o *office) payment() []option {
	return []option{to(http.MethodPost, o.box.URL+"/payments"), oncetest.JSON(`{"amount":10}`)}
}

// begins are the ways to a payment of the first release whose answer is lost.
var begins = []struct {
	name  string
	begin func(o *office, p *process)
}{
	{"a caller", func(o *office, p *process) {
		o.box.Script(providertest.DropAfter())
		require.ErrorIs(o.t, p.Ask(named(o.t, invoice), o.payment()...).Err, onceward.ErrPending)
	}},
	{"a caller whose process is killed", func(o *office, p *process) {
		o.box.Script(providertest.DelayAfter(time.Minute))
		go p.Ask(named(o.t, invoice), o.payment()...)
		pass(time.Second)
		p.Crash()
		pass(2 * time.Minute)
	}},
	{"Run, by an enqueued payment", func(o *office, p *process) {
		o.enqueue()
		o.box.Script(providertest.DropAfter())
		_, err := p.Resume(o.t.Context())
		require.NoError(o.t, err)
	}},
	{"Run, by an enqueued payment, and its process is killed", func(o *office, p *process) {
		o.enqueue()
		o.box.Script(providertest.DelayAfter(time.Minute))
		go p.Resume(context.Background())
		pass(time.Second)
		p.Crash()
		pass(2 * time.Minute)
	}},
}

// enqueue enqueues the payment in the first release.
func (o *office) enqueue() {
	o.t.Helper()
	_, cfg := o.of("north-1")
	c, err := onceward.New(cfg)
	require.NoError(o.t, err)
	defer c.Shutdown(cancelled())
	tx, err := o.cfg.Journal.(*memory.Journal).BeginTx(o.t.Context())
	require.NoError(o.t, err)
	r, err := http.NewRequestWithContext(o.t.Context(), http.MethodPost, o.box.URL+"/payments", strings.NewReader(`{"amount":10}`))
	require.NoError(o.t, err)
	r.Header.Set("Content-Type", "application/json")
	_, err = c.Enqueue(named(o.t, invoice), tx, r)
	require.NoError(o.t, err)
	require.NoError(o.t, tx.Commit(o.t.Context()))
}

// goesOn are the ways of a later release to the payment.
var goesOn = []struct {
	name string
	by   func(o *office, p *process) error
}{
	{"a caller", func(o *office, p *process) error { return p.Ask(named(o.t, invoice), o.payment()...).Err }},
	{"Resume", func(o *office, p *process) error {
		_, err := p.Resume(o.t.Context())
		return err
	}},
	{"Run", func(o *office, p *process) error {
		ctx, end := context.WithTimeout(seam.Seldom(o.t.Context(), time.Minute), time.Hour)
		defer end()
		_ = p.Run(ctx)
		return nil
	}},
}

// A payment that may have been made is sent again only under the credential that it was sent with, or under one of the same
// account.
func TestAPaymentThatMayHaveBeenMadeStaysInItsAccount(t *testing.T) {
	cases := 0
	for _, row := range []struct {
		name         string
		reconcile    bool
		identified   bool
		sealed       bool // while the next release asks
		next         string
		state, later onceward.State // later: once the bank says again whose a credential is
	}{
		{"another account", true, true, false, "south-1", onceward.StateUnknown, onceward.StateUnknown},
		{"an account that can't be read just now, another one", true, true, true, "south-1", onceward.StatePending, onceward.StateUnknown},
		{"an account that can't be read just now, the same one", true, true, true, "north-2", onceward.StatePending, onceward.StateCompleted},
		{"a new credential of the account", true, true, false, "north-2", onceward.StateCompleted, onceward.StateCompleted},
		{"a table without accounts", true, false, false, "south-1", onceward.StateUnknown, onceward.StateUnknown},
		{"without Reconcile", false, true, false, "south-1", onceward.StateUnknown, onceward.StateUnknown},
		{"the same credential, whose account can't be read just now", true, true, true, "north-1", onceward.StateCompleted, onceward.StateCompleted},
		{"the same credential, without Reconcile", false, true, false, "north-1", onceward.StateCompleted, onceward.StateCompleted},
	} {
		for _, first := range begins {
			for _, next := range goesOn {
				if cases++; !sample.Takes(cases, 4) {
					continue
				}
				virtual(t, row.name+", begun by "+first.name+", asked by "+next.name, func(t *testing.T) {
					var cfg onceward.Config
					if row.reconcile {
						cfg.Reconcile = plain()
					}
					var adjust []func(*providers.Provider)
					if !row.identified {
						adjust = append(adjust, unidentified)
					}
					o := openOffice(t, cfg, adjust...)
					p := o.release("north-1")
					first.begin(o, p)
					_ = p.Shutdown(cancelled())
					require.Len(t, o.box.Effects(), 1)
					pass(time.Hour)

					o.sealed.Store(row.sealed)
					second := o.release(row.next)
					err := next.by(o, second)
					op := second.Recorded(onceward.Ref{ID: invoice})
					assert.Equal(t, row.state, op.State, op.Cause)
					if row.state == onceward.StatePending {
						assert.Contains(t, op.Cause, "could not be read")
						if next.name == "a caller" {
							require.ErrorIs(t, err, onceward.ErrPending)
							require.ErrorContains(t, err, "could not be read")
						}
					}

					o.sealed.Store(false)
					pass(time.Hour)
					_ = next.by(o, second)
					assert.Equal(t, row.later, second.Recorded(onceward.Ref{ID: invoice}).State)
					assert.Len(t, o.box.Effects(), 1)
					_ = second.Shutdown(cancelled())
					synctest.Wait()
				})
			}
		}
	}
}

// A payment that has not been sent goes out under the day's credential. From then on it belongs to that one.
func TestAPaymentThatWasNeverSentGoesOutUnderANewCredential(t *testing.T) {
	for _, row := range []struct {
		name string
		hold func(o *office, p *process)
	}{
		{"enqueued", func(o *office, _ *process) { o.enqueue() }},
		{"refused before it was sent", func(o *office, p *process) {
			o.down.Store(true)
			require.ErrorIs(o.t, p.Ask(named(o.t, invoice), o.payment()...).Err, onceward.ErrPending)
			o.down.Store(false)
		}},
	} {
		for _, next := range goesOn[:2] { // Run would send it again by itself
			virtual(t, row.name+", by "+next.name, func(t *testing.T) {
				o := openOffice(t, onceward.Config{}, unidentified)
				first := o.release("north-1")
				row.hold(o, first)
				_ = first.Shutdown(cancelled())
				pass(time.Hour)

				second := o.release("north-2")
				o.box.Script(providertest.DropAfter())
				_ = next.by(o, second)
				_ = second.Shutdown(cancelled())
				require.Len(t, o.box.Effects(), 1)
				pass(time.Hour)

				third := o.release("north-1")
				_ = next.by(o, third)
				assert.Equal(t, onceward.StateUnknown, third.Recorded(onceward.Ref{ID: invoice}).State, "it was not sent under this credential")
				assert.Len(t, o.box.Effects(), 1)
			})
		}
	}
}

// A credential that can't be recorded is not used.
func TestACredentialThatTheJournalCannotRecord(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		o := openOffice(t, onceward.Config{}, unidentified)
		first := o.release("north-1")
		o.enqueue()
		_ = first.Shutdown(cancelled())
		failing := &oncetest.Failing{Store: o.cfg.Journal.(machine.Store)}
		failing.Fails(false, machine.EventSign)
		o.cfg.Journal = failing
		second := o.release("north-2")
		_, err := second.Resume(t.Context())
		require.NoError(t, err)
		assert.Empty(t, o.box.Effects())
		assert.Equal(t, onceward.StatePending, second.Recorded(onceward.Ref{ID: invoice}).State)
		failing.Fails(false)
		pass(time.Hour)
		_, err = second.Resume(t.Context())
		require.NoError(t, err)
		assert.Len(t, o.box.Effects(), 1)
	})
}

// An operation that was begun without a credential has not been sent, even if its process was killed.
func TestAPaymentBegunWithoutACredential(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		o := openOffice(t, onceward.Config{}, unidentified)
		via, cfg := o.of("north-1")
		asked, stuck := 0, make(chan struct{})
		defer close(stuck)
		cfg.Authorize = func(r *http.Request) error {
			if asked++; asked > 1 {
				<-stuck
			}
			return errors.New("the vault is sealed")
		}
		first := start(t, via, cfg)
		go first.Ask(named(t, invoice), o.payment()...)
		pass(time.Second)
		first.Crash()
		require.Equal(t, journal.Unsigned, first.Recorded(onceward.Ref{ID: invoice}).Credential)

		second := o.release("north-2")
		_, err := second.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, onceward.StateCompleted, second.Recorded(onceward.Ref{ID: invoice}).State)
		assert.Len(t, o.box.Effects(), 1)
	})
}

// The next release adds other headers in Authorize. It sends a payment again only if they show the same owner.
func TestAPaymentStaysWithTheOwnerThatItsHeadersName(t *testing.T) {
	type headers map[string]string
	const platform = "Bearer platform"
	for _, row := range []struct {
		name  string
		a, b  headers
		state onceward.State
	}{
		{"another account by the table's header", headers{"Authorization": platform, "Bank-Account": "a"}, headers{"Authorization": platform, "Bank-Account": "b"}, onceward.StateUnknown},
		{"the same account by the table's header", headers{"Authorization": platform, "Bank-Account": "a"}, headers{"Authorization": platform, "Bank-Account": "a"}, onceward.StateCompleted},
		{"a signature for another client", headers{"X-Client-Id": "a", "X-Signature": "1"}, headers{"X-Client-Id": "b", "X-Signature": "2"}, onceward.StateUnknown},
		{"a signature for another merchant", headers{"Merchantid": "a", "X-Sign": "1"}, headers{"Merchantid": "b", "X-Sign": "2"}, onceward.StateUnknown},
		{"another signature for the same client", headers{"X-Client-Id": "a", "X-Signature": "1", "X-Timestamp": "1"}, headers{"X-Client-Id": "a", "X-Signature": "2", "X-Timestamp": "2"}, onceward.StateCompleted},
		{"another signature by the same key", headers{"Authorization": `Signature keyId="a",signature="1"`}, headers{"Authorization": `Signature keyId="a",signature="2"`}, onceward.StateCompleted},
		{"a signature by another key", headers{"Authorization": `Signature keyId="a",signature="1"`}, headers{"Authorization": `Signature keyId="b",signature="2"`}, onceward.StateUnknown},
		{"a signature by the key of another certificate", headers{"Signature": `keyId="SN=1,CA=CN=a",signature="1"`}, headers{"Signature": `keyId="SN=1,CA=CN=b",signature="2"`}, onceward.StateUnknown},
		{"Hawk, the same id", headers{"Authorization": `Hawk id="a", ts="1", mac="1="`}, headers{"Authorization": `Hawk id="a", ts="2", mac="2="`}, onceward.StateCompleted},
		{"Hawk, another id", headers{"Authorization": `Hawk id="a", ts="1", mac="1="`}, headers{"Authorization": `Hawk id="b", ts="2", mac="2="`}, onceward.StateUnknown},
		{"SharedKey, the same account", headers{"Authorization": "SharedKey a:1="}, headers{"Authorization": "SharedKey a:2="}, onceward.StateCompleted},
		{"SharedKey, another account", headers{"Authorization": "SharedKey a:1="}, headers{"Authorization": "SharedKey b:2="}, onceward.StateUnknown},
		{"a scheme with a date behind its key", headers{"Authorization": "TC3-HMAC-SHA256 Credential=a/2000-01-01/tc3_request, Signature=1"}, headers{"Authorization": "TC3-HMAC-SHA256 Credential=a/2000-01-02/tc3_request, Signature=2"}, onceward.StateCompleted},
	} {
		virtual(t, row.name, func(t *testing.T) {
			o := openOffice(t, onceward.Config{}, unidentified, func(p *providers.Provider) { p.AccountHeaders = []string{"Bank-Account"} })
			o.box.Account = func(providertest.Request) string { return "the bank's" }
			release := func(h headers) *process {
				via, cfg := o.of("")
				cfg.Authorize = func(r *http.Request) error {
					for name, value := range h {
						r.Header.Set(name, value)
					}
					return nil
				}
				return start(t, via, cfg)
			}
			first := release(row.a)
			o.box.Script(providertest.DropAfter())
			require.ErrorIs(t, first.Ask(named(t, invoice), o.payment()...).Err, onceward.ErrPending)
			require.NoError(t, first.Shutdown(t.Context()))
			pass(time.Hour)
			second := release(row.b)
			_, err := second.Resume(t.Context())
			require.NoError(t, err)
			op := second.Recorded(onceward.Ref{ID: invoice})
			assert.Equal(t, row.state, op.State, op.Cause)
			assert.Equal(t, row.state == onceward.StateCompleted, strings.Count(o.box.Ledger(), "POST") == 2)
		})
	}
}
