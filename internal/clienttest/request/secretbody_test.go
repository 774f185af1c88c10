package request_test

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
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// aCard is no card number, but the text that the tests look for in files.
const aCard = canary

// A secret body is not recorded.
func TestSecretBodyIsNotKept(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		script []reply
		err    error
		state  onceward.State
	}{
		{"completed", nil, nil, onceward.StateCompleted},
		{"refused", []reply{says(402, `{"error":"declined"}`)}, nil, onceward.StateCompleted},
		{"completed after a lost answer", []reply{loses()}, nil, onceward.StateCompleted},
		{"parked", []reply{loses(), loses(), loses(), loses(), loses(), loses(), loses(), loses()}, onceward.ErrPending, onceward.StatePending},
		{"not connected", []reply{refuses(), refuses(), refuses(), refuses(), refuses(), refuses(), refuses()}, onceward.ErrPending, onceward.StatePending},
	} {
		t.Run(row.name, func(t *testing.T) {
			var heard confession
			dir := t.TempDir()
			l := (&line{}).Then(row.script...)
			p := start(t, l, heard.listen(onceward.Config{
				Journal: openSQLite(t, filepath.Join(dir, "journal.db")), Providers: []providers.Provider{cards()}, Backoff: quick, Secret: []byte("sixteen bytes of a secret"),
			}))
			out := p.Ask(named(t, invoice), card(aCard), with("X-Request-Id", marker))
			if row.err == nil {
				require.NoError(t, out.Err)
			} else {
				var e *onceward.Error
				require.ErrorAs(t, out.Err, &e)
				require.ErrorIs(t, e, row.err)
				assert.False(t, e.InBackground, "nobody else has the body")
			}
			heard.tell(out.Err)
			heard.say(out.Op)
			op := p.Recorded(onceward.Ref{ID: invoice})
			assert.Equal(t, row.state, op.State)
			assert.True(t, op.BodyWithheld)
			assert.Empty(t, op.Request.Body)
			assert.True(t, strings.HasPrefix(op.Fingerprint, "v3 "), "under Config.Secret")
			for _, s := range l.Sent() {
				assert.Contains(t, s.Body, aCard, "what is sent is whole")
			}
			requireNoCanary(t, "logs, Trace and errors", []byte(heard.String()))
			require.NoError(t, p.Shutdown(context.Background()))
			assert.Contains(t, string(requireNoCanaryOnDisk(t, dir, 1)), marker)
		})
	}
}

// A secret body is sent only by a call that has it.
func TestSecretBodyIsSentByItsCallerOnly(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(loses())
		cfg := onceward.Config{Journal: j, Providers: []providers.Provider{cards()}, Backoff: once, Secret: []byte("sixteen bytes of a secret")}
		first := start(t, l, cfg)
		require.ErrorIs(t, first.Ask(named(t, invoice), card("4242")).Err, onceward.ErrPending)
		require.NoError(t, first.Shutdown(context.Background()))

		next := start(t, l, cfg)
		pass(time.Hour)
		_, err := next.Resume(t.Context())
		require.NoError(t, err)
		assert.Len(t, l.Sent(), 1, "the background has no body")
		assert.Equal(t, journal.StatePending, next.Recorded(onceward.Ref{ID: invoice}).State)

		other := next.Ask(named(t, invoice), card("4243"))
		require.ErrorIs(t, other.Err, onceward.ErrKeyReused)
		assert.Len(t, l.Sent(), 1)

		out := next.Ask(named(t, invoice), card("4242"))
		require.NoError(t, out.Err)
		assert.Equal(t, paid, out.Body)
		require.Len(t, l.Sent(), 2)
		assert.Equal(t, l.Sent()[0], withTime(l.Sent()[1], l.Sent()[0].At), "the same request, under the same key")

		again := next.Ask(named(t, invoice), card("4242"))
		require.NoError(t, again.Err)
		assert.True(t, again.Op.Replayed)
		assert.ErrorIs(t, next.Ask(named(t, invoice), card("4243")).Err, onceward.ErrKeyReused)
		assert.Len(t, l.Sent(), 2)
	})
}

// Without Config.Secret a card number has no digest. Trying all numbers against a digest would find it, as the salt is
// stored beside it.
func TestWithoutASecretABodyHasNoDigest(t *testing.T) {
	l := &line{}
	p := start(t, l, onceward.Config{Providers: []providers.Provider{cards()}, Backoff: once})
	require.NoError(t, p.Ask(named(t, invoice), card("4242")).Err)
	op := p.Recorded(onceward.Ref{ID: invoice})
	assert.True(t, strings.HasPrefix(op.Fingerprint, "v4 "))
	assert.True(t, strings.HasSuffix(op.Fingerprint, " "+strings.Repeat("A", 43)), "the body's part is empty: %s", op.Fingerprint)

	again := p.Ask(named(t, invoice), card("4243"))
	require.NoError(t, again.Err, "another card is not noticed")
	assert.True(t, again.Op.Replayed)
	other := p.Ask(named(t, invoice), card("4242"), to(http.MethodPost, ownURL+"?capture=true"))
	require.ErrorIs(t, other.Err, onceward.ErrKeyReused, "everything else is")
	assert.Len(t, l.Sent(), 1)
}

// An answer that repeats the secret is recorded without its body. Any other answer is replayed.
func TestAnAnswerThatRepeatsASecretIsNotKept(t *testing.T) {
	for _, row := range []struct {
		name, answer string
		kept         bool
	}{
		{"an error that quotes the card", `{"error":"number ` + aCard + ` is invalid"}`, false},
		{"an error that does not", `{"error":"the number is invalid"}`, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			stated := cards()
			stated.SecretSource = "its documentation"
			p := start(t, (&line{}).Then(says(402, row.answer)), onceward.Config{
				Journal: openSQLite(t, filepath.Join(dir, "journal.db")), Providers: []providers.Provider{stated},
			})
			out := p.Ask(named(t, invoice), card(aCard), with("X-Request-Id", marker))
			require.NoError(t, out.Err)
			assert.Equal(t, row.answer, out.Body, "its caller has it whole")
			op := p.Recorded(onceward.Ref{ID: invoice})
			assert.Equal(t, 402, op.Answer.Status)
			assert.Equal(t, !row.kept, op.Answer.Omitted)
			require.NoError(t, p.Shutdown(context.Background()))
			requireNoCanaryOnDisk(t, dir, 1)
		})
	}
}

// A body that is withheld without a table's rule is logged once for each endpoint, because the field's name may
// mislead.
func TestAWithheldBodyIsLoggedOnceAnEndpoint(t *testing.T) {
	var heard confession
	l := &line{}
	p := start(t, l, heard.listen(onceward.Config{Providers: []providers.Provider{own()}}))
	for _, ask := range []struct{ name, url, body string }{
		{"one", ownURL, "api_key=1"}, {"two", ownURL, "access_token=1"}, {"three", "https://elsewhere.example/", "%00\x00"}, {"four", "https://elsewhere.example/", "%00\x00"},
		{"five", ownURL, "amount=100"},
	} {
		require.NoError(t, p.Ask(named(t, ask.name), to(http.MethodPost, ask.url), body(ask.body), func(r *http.Request) {
			if ask.url != ownURL {
				r.Header.Set("Content-Type", "application/octet-stream")
			}
		}).Err)
	}
	told := heard.String()
	assert.Equal(t, 2, strings.Count(told, `"event":"request.withheld"`), told)
	assert.Contains(t, told, `"field":"apikey"`)
	assert.Contains(t, told, `"field":"*"`)
	assert.False(t, p.Recorded(onceward.Ref{ID: "five"}).BodyWithheld)
}

func withTime(s sent, at time.Time) sent { s.At = at; return s }

// An operation with a secret body ends by itself if its caller does not return.
func TestSecretBodyEndsWithoutItsCaller(t *testing.T) {
	for _, row := range []struct {
		name  string
		fault reply
		state journal.State
	}{
		{"unknown where it may have run", loses(), journal.StateUnknown},
		{"cancelled where nothing has", refuses(), journal.StateCancelled},
	} {
		each(t, row.name, func(t *testing.T, j machine.Store) {
			l := (&line{}).Always(row.fault)
			cfg := onceward.Config{Journal: j, Providers: []providers.Provider{cards()}, Backoff: once}
			p := start(t, l, cfg)
			require.ErrorIs(t, p.Ask(named(t, invoice), card("4242")).Err, onceward.ErrPending)
			sent := len(l.Sent())
			pass(6 * 24 * time.Hour)
			_, err := p.Resume(t.Context())
			require.NoError(t, err)
			require.Equal(t, journal.StatePending, p.Recorded(onceward.Ref{ID: invoice}).State, "its caller may still ask")
			pass(2 * 24 * time.Hour)
			for range 3 { // a clock that goes on by days is not believed at once
				_, err = p.Resume(t.Context())
				require.NoError(t, err)
				pass(machine.Confirmation)
			}
			assert.Equal(t, row.state, p.Recorded(onceward.Ref{ID: invoice}).State)
			assert.Len(t, l.Sent(), sent)
		})
	}
}

// A process died and left an operation with a secret body in flight. It waits for its caller, as no other process can
// send it.
func TestSecretBodyOfAKilledProcess(t *testing.T) {
	eachJournal(t, func(t *testing.T, open func() machine.Store) {
		l := &line{}
		cfg := onceward.Config{Journal: open(), Providers: []providers.Provider{cards()}, Backoff: once}
		dead := start(t, l, cfg)
		l.Then(doing(dead.Crash, loses()))
		require.Error(t, dead.Ask(named(t, invoice), card("4242")).Err)

		cfg.Journal = open()
		next := start(t, l, cfg)
		_, err := next.Resume(t.Context())
		require.NoError(t, err)
		assert.Len(t, l.Sent(), 1)
		require.Equal(t, journal.StatePending, next.Recorded(onceward.Ref{ID: invoice}).State)
		out := next.Ask(named(t, invoice), card("4242"))
		require.NoError(t, out.Err)
		require.Len(t, l.Sent(), 2)
		assert.Equal(t, l.Sent()[0].Key, l.Sent()[1].Key)
	})
}

// The multipart boundary is new for each request, and the body that is sent has its own.
func TestSecretBodyComesWithItsContentType(t *testing.T) {
	l := (&line{}).Then(loses())
	p := start(t, l, onceward.Config{Providers: []providers.Provider{cards()}, Backoff: quick})
	upload := func(boundary string) []option {
		return []option{to(http.MethodPost, ownURL), with("Content-Type", "multipart/form-data; boundary="+boundary), with("X-Version", boundary),
			body("--" + boundary + "\r\nContent-Disposition: form-data; name=\"card[number]\"\r\n\r\n4242\r\n--" + boundary + "--\r\n")}
	}
	ctx, cancel := context.WithCancel(named(t, invoice))
	l.Instead(doing(cancel, loses()))
	require.Error(t, p.Ask(ctx, upload("one")...).Err)
	out := p.Ask(named(t, invoice), upload("two")...)
	require.NoError(t, out.Err)
	require.Len(t, l.Sent(), 2)
	second := l.Sent()[1]
	assert.Equal(t, "multipart/form-data; boundary=two", second.Header.Get("Content-Type"))
	assert.Equal(t, "one", second.Header.Get("X-Version"), "the rest is what was frozen")
	assert.Contains(t, second.Body, "--two--")
}

// A body is not recorded if one value names another value as a card's code, in JSON or in a form.
func TestSecretBodyOfNamedValues(t *testing.T) {
	for contentType, text := range map[string]string{
		"application/json":                  `{"fields":[{"name":"amount","value":"10"},{"name":"cvc","value":"123"}]}`,
		"application/x-www-form-urlencoded": "amount=10&fields[0][name]=cvc&fields[0][value]=123",
	} {
		each(t, contentType, func(t *testing.T, j machine.Store) {
			l := &line{}
			p := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{own()}})
			require.NoError(t, p.Ask(named(t, invoice), toOwn, with("Content-Type", contentType), body(text)).Err)
			assert.Equal(t, text, l.Sent()[0].Body)
			op := p.Recorded(onceward.Ref{ID: invoice})
			assert.True(t, op.BodyWithheld)
			assert.Empty(t, op.Request.Body)
		})
	}
}

// A body without a secret field is recorded.
func TestABodyWithoutTheFieldIsNoSecret(t *testing.T) {
	l := (&line{}).Then(loses())
	p := start(t, l, onceward.Config{Providers: []providers.Provider{cards()}, Backoff: once})
	plain := []option{to(http.MethodPost, ownURL), with("Content-Type", "application/json"), body(`{"amount":100,"card":{"token":"tok_1"}}`)}
	require.ErrorIs(t, p.Ask(named(t, invoice), plain...).Err, onceward.ErrPending)
	op := p.Recorded(onceward.Ref{ID: invoice})
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
			out := p.Ask(named(t, invoice), to(http.MethodPost, at.url), body("amount=100"))
			require.ErrorIs(t, out.Err, onceward.ErrInvalidRequest)
			assert.Empty(t, l.Sent())
			assert.Empty(t, p.Everything())
			heard.tell(out.Err)
			requireNoCanary(t, "logs, Trace and errors", []byte(heard.String()))
		})
	}
}

// If the contract depends on a body that was not recorded, a process without the body keeps the recorded terms.
func TestSecretBodyThatDecidesTheContract(t *testing.T) {
	each(t, "a card in a GraphQL document", func(t *testing.T, j machine.Store) {
		l := &line{}
		const document = `{"query":"mutation M($input: AuthorizeCreditCardInput!) { authorizeCreditCard(input: $input) { transaction { id } } }",` +
			`"variables":{"input":{"apiRequestKey":"k","creditCard":{"number":"4111111111111111"}}}}`
		cfg := onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{providers.Braintree()}}
		was := start(t, l, cfg)
		ask := func(p *process) outcome {
			return p.Ask(named(t, "order-1"), to("POST", "https://payments.braintree-api.com/graphql"), body(document), with("Content-Type", "application/json"))
		}
		leavesInFlight(t, was, l, func() { ask(was) })
		now := start(t, l, cfg)
		begun := now.Recorded(onceward.Ref{ID: "order-1"})
		require.True(t, begun.BodyWithheld)
		_, err := now.Resume(t.Context())
		require.NoError(t, err)
		op := now.Recorded(onceward.Ref{ID: "order-1"})
		assert.Equal(t, onceward.StatePending, op.State, "its caller may ask again for 30 days: %s", op.Cause)
		assert.Equal(t, begun.Terms, op.Terms)
		l.Always(says(200, `{"data":{"authorizeCreditCard":{"transaction":{"id":"t1"}}}}`))
		require.NoError(t, ask(now).Err)
		require.Len(t, l.Sent(), 2)
		assert.Equal(t, l.Sent()[0].Body, l.Sent()[1].Body, "the key is in it")
	})
}
