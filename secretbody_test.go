package onceward_test

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// cards is an API whose requests may hold a card's number, which is remembered with
// its answers for as long as of any endpoint of own.
func cards() providers.Provider {
	return own(remembers(providers.Everything), func(e *providers.Endpoint) {
		e.InFlightGuard = true
		e.SecretRequest = []string{"card.number"}
	})
}

func card(number string) option {
	return func(r *http.Request) {
		to(http.MethodPost, ownURL)(r)
		r.Header.Set("Content-Type", "application/json")
		body(`{"amount":100,"card":{"number":"` + number + `"}}`)(r)
	}
}

// aCard is no number of a card, but what is looked for in files.
const aCard = canary

func TestABodyThatIsASecretIsNotKept(t *testing.T) {
	for _, row := range []struct {
		name   string
		script []reply
		err    error
		state  onceward.State
	}{
		{"completed", nil, nil, onceward.Completed},
		{"refused", []reply{says(402, `{"error":"declined"}`)}, nil, onceward.Completed},
		{"completed after a lost answer", []reply{loses()}, nil, onceward.Completed},
		{"parked", []reply{loses(), loses(), loses(), loses(), loses(), loses(), loses(), loses()}, onceward.ErrPending, onceward.Pending},
		{"not connected", []reply{refuses(), refuses(), refuses(), refuses(), refuses(), refuses(), refuses()}, onceward.ErrPending, onceward.Pending},
	} {
		t.Run(row.name, func(t *testing.T) {
			var heard confession
			dir := t.TempDir()
			l := (&line{}).then(row.script...)
			p := start(t, l, heard.listen(onceward.Config{
				Journal: openSQLite(t, filepath.Join(dir, "journal.db")), Providers: []providers.Provider{cards()}, Backoff: quick, Secret: []byte("sixteen bytes of a secret"),
			}))
			out := p.ask(named(t, invoice), card(aCard), with("X-Request-Id", marker))
			if row.err == nil {
				require.NoError(t, out.err)
			} else {
				var e *onceward.Error
				require.ErrorAs(t, out.err, &e)
				require.ErrorIs(t, e, row.err)
				assert.False(t, e.InBackground, "nobody else has the body")
			}
			heard.tell(out.err)
			heard.say(out.op)
			op := p.recorded(onceward.Ref{ID: invoice})
			assert.Equal(t, row.state, op.State)
			assert.True(t, op.BodyWithheld)
			assert.Empty(t, op.Request.Body)
			assert.True(t, strings.HasPrefix(op.Fingerprint, "v3 "), "under Config.Secret")
			for _, s := range l.sent() {
				assert.Contains(t, s.Body, aCard, "what is sent is whole")
			}
			requireNoCanary(t, "logs, Trace and errors", []byte(heard.String()))
			require.NoError(t, p.Shutdown(context.Background()))
			assert.Contains(t, string(requireNoCanaryOnDisk(t, dir, 1)), marker)
		})
	}
}

func TestOnlyWhoBringsASecretBodyHasItSent(t *testing.T) {
	each(t, "", func(t *testing.T, j journal.Journal) {
		l := (&line{}).then(loses())
		cfg := onceward.Config{Journal: j, Providers: []providers.Provider{cards()}, Backoff: once}
		first := start(t, l, cfg)
		require.ErrorIs(t, first.ask(named(t, invoice), card("4242")).err, onceward.ErrPending)
		require.NoError(t, first.Shutdown(context.Background()))

		next := start(t, l, cfg)
		pass(time.Hour)
		_, err := next.Resume(t.Context())
		require.NoError(t, err)
		assert.Len(t, l.sent(), 1, "the background has no body")
		assert.Equal(t, journal.Pending, next.recorded(onceward.Ref{ID: invoice}).State)

		other := next.ask(named(t, invoice), card("4243"))
		require.ErrorIs(t, other.err, onceward.ErrKeyReused)
		assert.Len(t, l.sent(), 1)

		out := next.ask(named(t, invoice), card("4242"))
		require.NoError(t, out.err)
		assert.Equal(t, paid, out.body)
		require.Len(t, l.sent(), 2)
		assert.Equal(t, l.sent()[0], withTime(l.sent()[1], l.sent()[0].At), "the same request, under the same key")

		again := next.ask(named(t, invoice), card("4242"))
		require.NoError(t, again.err)
		assert.True(t, again.op.Replayed)
		assert.ErrorIs(t, next.ask(named(t, invoice), card("4243")).err, onceward.ErrKeyReused)
		assert.Len(t, l.sent(), 2)
	})
}

func withTime(s sent, at time.Time) sent { s.At = at; return s }

func TestWithoutItsCallerASecretBodyEnds(t *testing.T) {
	for _, row := range []struct {
		name  string
		fault reply
		state journal.State
	}{
		{"unknown where it may have run", loses(), journal.Unknown},
		{"cancelled where nothing has", refuses(), journal.Cancelled},
	} {
		each(t, row.name, func(t *testing.T, j journal.Journal) {
			l := (&line{}).always(row.fault)
			cfg := onceward.Config{Journal: j, Providers: []providers.Provider{cards()}, Backoff: once}
			p := start(t, l, cfg)
			require.ErrorIs(t, p.ask(named(t, invoice), card("4242")).err, onceward.ErrPending)
			sent := len(l.sent())
			pass(6 * 24 * time.Hour)
			_, err := p.Resume(t.Context())
			require.NoError(t, err)
			require.Equal(t, journal.Pending, p.recorded(onceward.Ref{ID: invoice}).State, "its caller may still ask")
			pass(2 * 24 * time.Hour)
			for range 3 { // a clock that goes on by days is not believed at once
				_, err = p.Resume(t.Context())
				require.NoError(t, err)
				pass(journal.Confirmation)
			}
			assert.Equal(t, row.state, p.recorded(onceward.Ref{ID: invoice}).State)
			assert.Len(t, l.sent(), sent)
		})
	}
}

// A process that died leaves an operation in flight that nobody can send but its
// caller.
func TestASecretBodyOfADeadProcessWaitsForItsCaller(t *testing.T) {
	eachJournal(t, func(t *testing.T, open func() journal.Journal) {
		l := &line{}
		cfg := onceward.Config{Journal: open(), Providers: []providers.Provider{cards()}, Backoff: once}
		dead := start(t, l, cfg)
		l.then(doing(dead.crash, loses()))
		require.Error(t, dead.ask(named(t, invoice), card("4242")).err)

		cfg.Journal = open()
		next := start(t, l, cfg)
		_, err := next.Resume(t.Context())
		require.NoError(t, err)
		assert.Len(t, l.sent(), 1)
		require.Equal(t, journal.Pending, next.recorded(onceward.Ref{ID: invoice}).State)
		out := next.ask(named(t, invoice), card("4242"))
		require.NoError(t, out.err)
		require.Len(t, l.sent(), 2)
		assert.Equal(t, l.sent()[0].Key, l.sent()[1].Key)
	})
}

// The boundary is made anew for each request, and belongs to the body that it cuts.
func TestASecretBodyComesWithWhatDescribesIt(t *testing.T) {
	l := (&line{}).then(loses())
	p := start(t, l, onceward.Config{Providers: []providers.Provider{cards()}, Backoff: quick})
	upload := func(boundary string) []option {
		return []option{to(http.MethodPost, ownURL), with("Content-Type", "multipart/form-data; boundary="+boundary), with("X-Version", boundary),
			body("--" + boundary + "\r\nContent-Disposition: form-data; name=\"card[number]\"\r\n\r\n4242\r\n--" + boundary + "--\r\n")}
	}
	ctx, cancel := context.WithCancel(named(t, invoice))
	l.mu.Lock()
	l.script = []reply{doing(cancel, loses())}
	l.mu.Unlock()
	require.Error(t, p.ask(ctx, upload("one")...).err)
	out := p.ask(named(t, invoice), upload("two")...)
	require.NoError(t, out.err)
	require.Len(t, l.sent(), 2)
	second := l.sent()[1]
	assert.Equal(t, "multipart/form-data; boundary=two", second.Header.Get("Content-Type"))
	assert.Equal(t, "one", second.Header.Get("X-Version"), "the rest is what was frozen")
	assert.Contains(t, second.Body, "--two--")
}

// A body without such a field is kept as any.
func TestABodyWithoutTheFieldIsNoSecret(t *testing.T) {
	l := (&line{}).then(loses())
	p := start(t, l, onceward.Config{Providers: []providers.Provider{cards()}, Backoff: once})
	plain := []option{to(http.MethodPost, ownURL), with("Content-Type", "application/json"), body(`{"amount":100,"card":{"token":"tok_1"}}`)}
	require.ErrorIs(t, p.ask(named(t, invoice), plain...).err, onceward.ErrPending)
	op := p.recorded(onceward.Ref{ID: invoice})
	assert.False(t, op.BodyWithheld)
	assert.NotEmpty(t, op.Request.Body)
	assert.True(t, strings.HasPrefix(op.Fingerprint, "v1 "))
}

func TestACardInAQueryIsRefused(t *testing.T) {
	for _, at := range []struct{ what, url string }{
		{"beside a body", ownURL + "?card[number]=" + aCard},
		{"escaped", ownURL + "?a=1&card%5Bnumber%5D=" + aCard},
	} {
		t.Run(at.what, func(t *testing.T) {
			var heard confession
			dir := t.TempDir()
			l := &line{}
			p := start(t, l, heard.listen(onceward.Config{
				Journal: openSQLite(t, filepath.Join(dir, "journal.db")), Providers: []providers.Provider{cards()}, Backoff: quick,
			}))
			out := p.ask(named(t, invoice), to(http.MethodPost, at.url), body("amount=100"))
			require.ErrorIs(t, out.err, onceward.ErrInvalidRequest)
			assert.Empty(t, l.sent())
			assert.Empty(t, p.everything())
			heard.tell(out.err)
			requireNoCanary(t, "logs, Trace and errors", []byte(heard.String()))
		})
	}
}

func TestWhereOnlyTheBodyTellsTheContractOneThatIsNotKeptNarrowsNothing(t *testing.T) {
	each(t, "a card in a GraphQL document", func(t *testing.T, j journal.Journal) {
		l := &line{}
		const document = `{"query":"mutation M($input: AuthorizeCreditCardInput!) { authorizeCreditCard(input: $input) { transaction { id } } }",` +
			`"variables":{"input":{"apiRequestKey":"k","creditCard":{"number":"4111111111111111"}}}}`
		cfg := onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{providers.Braintree()}}
		was := start(t, l, cfg)
		ask := func(p *process) outcome {
			return p.ask(named(t, "order-1"), to("POST", "https://payments.braintree-api.com/graphql"), body(document), with("Content-Type", "application/json"))
		}
		leavesInFlight(t, was, l, func() { ask(was) })
		now := start(t, l, cfg)
		begun := now.recorded(onceward.Ref{ID: "order-1"})
		require.True(t, begun.BodyWithheld)
		_, err := now.Resume(t.Context())
		require.NoError(t, err)
		op := now.recorded(onceward.Ref{ID: "order-1"})
		assert.Equal(t, onceward.Pending, op.State, "its caller may ask again for 30 days: %s", op.Cause)
		assert.Equal(t, begun.Terms, op.Terms)
		l.always(says(200, `{"data":{"authorizeCreditCard":{"transaction":{"id":"t1"}}}}`))
		require.NoError(t, ask(now).err)
		require.Len(t, l.sent(), 2)
		assert.Equal(t, l.sent()[0].Body, l.sent()[1].Body, "the key is in it")
	})
}
