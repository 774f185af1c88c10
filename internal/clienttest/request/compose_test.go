package request_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

// elsewhere is a place for a key outside of the headers, with a request for it.
type elsewhere struct {
	name string
	key  providers.Key
	ask  func(key string) []option // key "": it carries none
	find func(sent) string
}

const orders = "https://own.example/orders"

var jsonType = with("Content-Type", "application/json")

func bodyOf(s sent) tables.Message {
	u := mustParse(s.URL)
	return tables.Message{Header: s.Header, Query: u.RawQuery, Body: []byte(s.Body)}
}

// elsewheres are all places outside the headers.
func elsewheres() []elsewhere {
	at := func(name string, key providers.Key, ask func(key string) []option) elsewhere {
		return elsewhere{name, key, ask, func(s sent) string {
			found, _, err := tables.Key(key).Carried(bodyOf(s))
			if err != nil {
				return err.Error()
			}
			return found
		}}
	}
	return []elsewhere{
		at("query", providers.Key{Place: providers.KeyQuery, Name: "ClientToken"}, func(key string) []option {
			u := orders + "?a=%31"
			if key != "" {
				u += "&ClientToken=" + key
			}
			return []option{to(http.MethodPost, u), body(`{"n":1.0}`), jsonType}
		}),
		at("form", providers.Key{Place: providers.KeyFormField, Name: "IdempotencyKey"}, func(key string) []option {
			text := "To=%2B1&Body=a+b"
			if key != "" {
				text = "IdempotencyKey=" + key + "&" + text
			}
			return []option{to(http.MethodPost, orders), body(text), with("Content-Type", form)}
		}),
		at("JSON", providers.Key{Place: providers.KeyJSONField, Name: "idempotency_key"}, func(key string) []option {
			text := `{"amount": 12345678901234567890}`
			if key != "" {
				text = `{"idempotency_key":"` + key + `","amount": 12345678901234567890}`
			}
			return []option{to(http.MethodPost, orders), body(text), jsonType}
		}),
		at("GraphQL variable", providers.Key{Place: providers.KeyGraphQL, Name: "@idempotent.key"}, func(key string) []option {
			text := `{"query":"mutation($k: ID) { refund(n: 1) @idempotent(key: $k) { id } }","variables":{"n":1}}`
			if key != "" {
				text = strings.Replace(text, `"n":1}}`, `"n":1,"k":"`+key+`"}}`, 1)
			}
			return []option{to(http.MethodPost, orders), body(text), jsonType}
		}),
	}
}

func takingKey(key providers.Key) providers.Provider {
	return own(func(e *providers.Endpoint) { e.Key = key })
}

// A named operation keeps its key in the body even if the SDK generates a new one.
func TestBodyKeyStaysThoughTheSDKMakesANewOne(t *testing.T) {
	t.Parallel()
	for _, place := range elsewheres() {
		each(t, place.name, func(t *testing.T, j machine.Store) {
			l := &line{}
			cfg := onceward.Config{Journal: j, Providers: []providers.Provider{takingKey(place.key)}, Backoff: quick}
			first := start(t, l, cfg)
			l.Then(loses(), doing(func() { first.Crash() }, loses()))
			out := first.Ask(named(t, "order-7"), place.ask("sdk-1")...)
			require.Error(t, out.Err)

			second := start(t, l, cfg)
			out = second.Ask(named(t, "order-7"), place.ask("sdk-2")...)
			require.NoError(t, out.Err)
			assert.Equal(t, paid, out.Body)

			got := l.Sent()
			require.Len(t, got, 3)
			assert.Equal(t, "sdk-1", place.find(got[0]))
			for _, again := range got[1:] {
				assert.Equal(t, got[0].Body, again.Body)
				assert.Equal(t, got[0].URL, again.URL)
			}

			out = second.Ask(named(t, "order-7"), place.ask("sdk-3")...)
			require.NoError(t, out.Err)
			assert.True(t, out.Op.Replayed)
			assert.Len(t, l.Sent(), 3)
		})
	}
}

// Resume sends the same bytes with the key in them.
func TestBodyKeyIsResumedByteForByte(t *testing.T) {
	t.Parallel()
	for _, place := range elsewheres() {
		for _, carried := range []string{"", "sdk-1"} {
			each(t, place.name+" "+carried, func(t *testing.T, j machine.Store) {
				l := &line{}
				cfg := onceward.Config{Journal: j, Providers: []providers.Provider{takingKey(place.key)}, Backoff: quick}
				first := start(t, l, cfg)
				l.Then(doing(func() { first.Crash() }, loses()))
				require.Error(t, first.Ask(t.Context(), place.ask(carried)...).Err)

				report, err := start(t, l, cfg).Resume(t.Context())
				require.NoError(t, err)
				assert.Equal(t, 1, report.Completed, report.Problems)
				got := l.Sent()
				require.Len(t, got, 2)
				assert.Equal(t, got[0].Body, got[1].Body)
				assert.Equal(t, got[0].URL, got[1].URL)
				if carried == "" {
					requireUUID(t, 4, place.find(got[0]))
				} else {
					assert.Equal(t, carried, place.find(got[0]))
				}
			})
		}
	}
}

// A key in the body or query is no part of the fingerprint.
func TestBodyKeyIsNotInTheFingerprint(t *testing.T) {
	for _, place := range elsewheres() {
		virtual(t, place.name, func(t *testing.T) {
			l := &line{}
			p := start(t, l, onceward.Config{Providers: []providers.Provider{takingKey(place.key)}})
			require.NoError(t, p.Ask(named(t, "order-7"), place.ask("sdk-1")...).Err)
			require.NoError(t, p.Ask(named(t, "order-7"), place.ask("sdk-2")...).Err)
			require.NoError(t, p.Ask(named(t, "order-7"), place.ask("")...).Err, "without a key it is the same request")
			other := func(r *http.Request) {
				text, err := io.ReadAll(r.Body)
				require.NoError(t, err)
				changed := strings.NewReplacer("1.0", "2.0", "n: 1", "n: 2", "%2B1", "%2B2", "890", "891").Replace(string(text))
				require.NotEqual(t, string(text), changed)
				body(changed)(r)
			}
			out := p.Ask(named(t, "order-7"), append(place.ask("sdk-1"), other)...)
			assert.ErrorIs(t, out.Err, onceward.ErrKeyReused)
			assert.Len(t, l.Sent(), 1)
		})
	}
}

// The journal's URL has no key, and does not list it as withheld.
func TestURLKeyIsNotInTheJournal(t *testing.T) {
	l := &line{}
	place := elsewheres()[0]
	p := start(t, l, onceward.Config{Providers: []providers.Provider{takingKey(place.key)}})
	out := p.Ask(named(t, "order-7"), place.ask("sdk-1")...)
	require.NoError(t, out.Err)
	frozen := p.Recorded(onceward.Ref{ID: "order-7"}).Request
	assert.Equal(t, orders+"?a=%31", frozen.URL)
	assert.Empty(t, frozen.WithheldQuery)
	assert.Equal(t, orders+"?a=%31&ClientToken=sdk-1", l.Sent()[0].URL)
}

// An unnamed operation is found by the key in its body.
func TestBodyKeyNamesAnUnnamedOperation(t *testing.T) {
	for _, place := range elsewheres() {
		virtual(t, place.name, func(t *testing.T) {
			l := &line{}
			p := start(t, l, onceward.Config{Providers: []providers.Provider{takingKey(place.key)}})
			first, second := p.Ask(t.Context(), place.ask("sdk-1")...), p.Ask(t.Context(), place.ask("sdk-1")...)
			require.NoError(t, first.Err)
			require.NoError(t, second.Err)
			assert.Equal(t, "sdk-1", first.Op.ID)
			assert.True(t, second.Op.Replayed)
			assert.Len(t, l.Sent(), 1)
		})
	}
}

func TestBodyLengthIsThatOfTheSentBody(t *testing.T) {
	var lengths []int64
	var bodies []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		lengths, bodies = append(lengths, r.ContentLength), append(bodies, string(text))
		w.WriteHeader(http.StatusCreated)
	}))
	defer srv.Close()
	table := takingKey(providers.Key{Place: providers.KeyJSONField, Name: "idempotency_key"})
	table.Hosts = []string{mustParse(srv.URL).Host}
	p := start(t, http.DefaultTransport, onceward.Config{Providers: []providers.Provider{table}, Journal: openSQLite(t, filepath.Join(t.TempDir(), "j.db"))})
	for _, text := range []string{`{}`, `{"idempotency_key":"a"}`} {
		require.NoError(t, p.Ask(named(t, text), to(http.MethodPost, srv.URL+"/orders"), body(text), jsonType).Err)
	}
	require.Len(t, bodies, 2)
	assert.Len(t, bodies[0], len(`{"idempotency_key":""}`)+36)
	assert.Equal(t, `{"idempotency_key":"a"}`, bodies[1])
	assert.Equal(t, []int64{int64(len(bodies[0])), int64(len(bodies[1]))}, lengths)
}

// signature signs everything that is sent, except itself.
func signature(method string, u *url.URL, key, text string) string {
	sum := sha256.Sum256([]byte(method + u.String() + key + text))
	return hex.EncodeToString(sum[:])
}

func TestAuthorizeSignsTheRequestAsItIsSent(t *testing.T) {
	t.Parallel()
	sign := func(r *http.Request) error {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		if r.ContentLength != int64(len(text)) {
			return errors.New("the length is another")
		}
		if again, err := r.GetBody(); err != nil {
			return err
		} else if copied, _ := io.ReadAll(again); !bytes.Equal(copied, text) {
			return errors.New("the copy is another")
		}
		r.Header.Set("X-Signature", signature(r.Method, r.URL, r.Header.Get("Idempotency-Key"), string(text)))
		return nil
	}
	header := elsewhere{name: "header", key: providers.Key{Place: providers.KeyRawHeader, Name: "Idempotency-Key"},
		ask: func(string) []option { return []option{to(http.MethodPost, orders), body("{}"), jsonType} }}
	for _, place := range append(elsewheres(), header) {
		each(t, place.name, func(t *testing.T, j machine.Store) {
			l := (&line{}).Then(loses())
			cfg := onceward.Config{Journal: j, Providers: []providers.Provider{takingKey(place.key)}, Backoff: quick, Authorize: sign}
			first := start(t, l, cfg)
			l.Then(doing(func() { first.Crash() }, loses()))
			require.Error(t, first.Ask(t.Context(), place.ask("sdk-1")...).Err)
			report, err := start(t, l, cfg).Resume(t.Context())
			require.NoError(t, err)
			assert.Equal(t, 1, report.Completed, report.Problems)
			require.Len(t, l.Sent(), 3)
			for _, s := range l.Sent() {
				assert.Equal(t, signature(s.Method, mustParse(s.URL), s.Key, s.Body), s.Header.Get("X-Signature"))
			}
		})
	}
}

// Authorize may read the body, but not change it.
func TestAuthorizeMayReadTheBody(t *testing.T) {
	place := elsewheres()[0]
	for _, tc := range []struct {
		name  string
		does  func(*http.Request)
		fails bool
	}{
		{"reads the body and restores it", func(r *http.Request) {
			text, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(text))
		}, false},
		{"replaces the body with none", func(r *http.Request) { r.Body = http.NoBody }, false},
		{"leaves no body", func(r *http.Request) { r.Body = nil }, false},
		{"adds a query parameter", func(r *http.Request) { r.URL.RawQuery += "&X-Amz-Signature=abc" }, false},
		{"puts another body", func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader(`{"n":2.0}`)) }, true},
		{"puts a longer body", func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader(`{"n":1.0} `)) }, true},
		{"puts another key", func(r *http.Request) { r.URL.RawQuery = strings.Replace(r.URL.RawQuery, "sdk-1", "sdk-2", 1) }, true},
		{"takes the key", func(r *http.Request) { r.URL.RawQuery = "a=%31" }, true},
		{"adds a key", func(r *http.Request) { r.URL.RawQuery += "&ClientToken=x" }, true},
	} {
		virtual(t, tc.name, func(t *testing.T) {
			l := &line{}
			p := start(t, l, onceward.Config{Providers: []providers.Provider{takingKey(place.key)}, Authorize: func(r *http.Request) error {
				tc.does(r)
				return nil
			}})
			out := p.Ask(t.Context(), place.ask("sdk-1")...)
			if tc.fails {
				require.Error(t, out.Err)
				assert.Contains(t, out.Err.Error(), "Config.Authorize changed more")
				assert.Empty(t, l.Sent())
				return
			}
			require.NoError(t, out.Err)
			require.Len(t, l.Sent(), 1)
			assert.Equal(t, `{"n":1.0}`, l.Sent()[0].Body)
		})
	}
}

// The first attempt's time is sent with every one.
func TestTimeOfTheFirstAttemptIsSent(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := (&line{}).Then(loses(), says(503, "", "Retry-After", "5"))
		table := own(func(e *providers.Endpoint) {
			e.Key = providers.Key{Place: providers.KeyRawHeader, Name: "Repeatability-Request-ID", FirstSent: "Repeatability-First-Sent"}
		})
		p := start(t, l, onceward.Config{Providers: []providers.Provider{table}})
		began := time.Now()
		out := p.Ask(named(t, "order-7"), to(http.MethodPost, orders), with("Repeatability-First-Sent", "yesterday"))
		require.NoError(t, out.Err)
		require.Len(t, l.Sent(), 3)
		for _, s := range l.Sent() {
			assert.Equal(t, []string{began.UTC().Format(http.TimeFormat)}, s.Header["Repeatability-First-Sent"])
		}
		assert.True(t, time.Since(began) > time.Second, "the attempts were not apart")
		assert.NotContains(t, p.Recorded(onceward.Ref{ID: "order-7"}).Request.Header, "Repeatability-First-Sent")
	})
}

// graph is a GraphQL API. Queries have no effect, and mutations with a directive take their key there.
func graph() providers.Provider {
	p := own()
	mutation := p.Endpoints[0]
	mutation.Pattern, mutation.Action = "POST /graphql", providers.Action{Place: providers.ActionGraphQL, Value: "mutation"}
	mutation.Key = providers.Key{Place: providers.KeyGraphQL, Name: "@idempotent.key"}
	p.Endpoints = []providers.Endpoint{
		{Pattern: "POST /graphql", Action: providers.Action{Place: providers.ActionGraphQL, Value: "query"}, NoEffect: true},
		mutation,
	}
	return p
}

func graphQL(text string) []option {
	return []option{to(http.MethodPost, "https://own.example/graphql"), body(text), jsonType}
}

func chunked(r *http.Request) { r.TransferEncoding, r.ContentLength = []string{"chunked"}, -1 }

const (
	aQuery    = `{"query":"query { orders { id } }"}`
	aMutation = `{"query":"mutation($k: ID) { refund @idempotent(key: $k) { id } }","variables":{"k":"sdk-1"}}`
	aLiteral  = `{"query":"mutation { refund @idempotent(key: \"sdk-1\") { id } }"}`
	keyless   = `{"query":"mutation { refund { id } }"}`
)

// A GraphQL query passes through and a mutation is journaled.
func TestGraphQLMutationIsJournaled(t *testing.T) {
	for _, tc := range []struct {
		name      string
		ask       []option
		named     bool
		journaled bool
		key       string
		refused   string
	}{
		{"a query", graphQL(aQuery), false, false, "", ""},
		{"a query under a name", graphQL(aQuery), true, false, "", ""},
		{"a chunked query", append(graphQL(aQuery), chunked), false, false, "", ""},
		{"a chunked query under a name", append(graphQL(aQuery), chunked), true, false, "", ""},
		{"a mutation", graphQL(aMutation), false, true, "sdk-1", ""},
		{"a mutation under a name", graphQL(aMutation), true, true, "sdk-1", ""},
		{"a chunked mutation", append(graphQL(aMutation), chunked), false, false, "", ""},
		{"a chunked mutation under a name", append(graphQL(aMutation), chunked), true, false, "", "chunked"},
		{"a mutation with a literal key", graphQL(aLiteral), false, false, "", "declare a variable for it"},
		{"a mutation with a literal key under a name", graphQL(aLiteral), true, false, "", "declare a variable for it"},
		{"a mutation that takes no key", graphQL(keyless), true, true, "", ""},
		{"a batch", graphQL("[" + aMutation + "]"), true, true, "", ""},
		{"a document that can't be read", graphQL(`{"query":"query {"}`), false, true, "", ""},
		{"a query over the limit", graphQL(aQuery + strings.Repeat(" ", 500)), false, false, "", "MaxRequestBody"},
	} {
		virtual(t, tc.name, func(t *testing.T) {
			l := &line{}
			p := start(t, l, onceward.Config{Providers: []providers.Provider{graph()}, MaxRequestBody: 400})
			ctx := t.Context()
			if tc.named {
				ctx = named(t, "refund-7")
			}
			out := p.Ask(ctx, tc.ask...)
			if tc.refused != "" {
				assert.ErrorIs(t, out.Err, onceward.ErrInvalidRequest)
				assert.ErrorContains(t, out.Err, tc.refused)
				assert.Empty(t, l.Sent())
				assert.Empty(t, p.Everything())
				return
			}
			require.NoError(t, out.Err)
			require.Len(t, l.Sent(), 1)
			request, err := http.NewRequest(http.MethodPost, orders, nil)
			require.NoError(t, err)
			tc.ask[1](request)
			want, err := io.ReadAll(request.Body)
			require.NoError(t, err)
			assert.Equal(t, string(want), l.Sent()[0].Body)
			ops := p.Everything()
			if !tc.journaled {
				assert.Empty(t, ops)
				return
			}
			require.Len(t, ops, 1)
			assert.Equal(t, tc.key, ops[0].Key)
		})
	}
}

// A mutation that takes no key is not sent again.
func TestGraphQLMutationWithoutKey(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := (&line{}).Then(loses())
		p := start(t, l, onceward.Config{Providers: []providers.Provider{graph()}})
		out := p.Ask(named(t, "refund-7"), graphQL(keyless)...)
		assert.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
		assert.Len(t, l.Sent(), 1)
	})
}

// A body that cannot carry the key is refused before anything is recorded or sent.
func TestBodyThatCanNotCarryTheKeyIsRefused(t *testing.T) {
	table := takingKey(providers.Key{Place: providers.KeyJSONField, Name: "idempotency_key", MaxLength: 40})
	for name, tc := range map[string]struct {
		text   string
		and    option
		reason string
	}{
		"empty":      {"", jsonType, "at least {}"},
		"compressed": {"{}", with("Content-Encoding", "gzip"), "Content-Encoding"},
		"an array":   {"[]", jsonType, "in a request of its own"},
		"no JSON":    {"{", jsonType, "not JSON"},
		"twice":      {`{"idempotency_key":"a","idempotency_key":"b"}`, jsonType, "twice"},
		"no string":  {`{"idempotency_key":1}`, jsonType, "not a string"},
		"too long":   {`{"idempotency_key":"` + strings.Repeat("k", 41) + `"}`, jsonType, "more than 40"},
	} {
		virtual(t, name, func(t *testing.T) {
			l := &line{}
			p := start(t, l, onceward.Config{Providers: []providers.Provider{table}})
			out := p.Ask(named(t, "order-7"), to(http.MethodPost, orders), body(tc.text), tc.and)
			require.ErrorIs(t, out.Err, onceward.ErrInvalidRequest)
			var invalid *tables.KeyError
			require.ErrorAs(t, out.Err, &invalid)
			assert.Contains(t, invalid.Reason, tc.reason)
			assert.Empty(t, l.Sent())
			assert.Empty(t, p.Everything())
		})
	}
}

// The first request's date is part of what a provider knows a key by. Once sent it stays the same within a
// generation, whatever the attempts' results and processes.
func TestDateStaysWithinAGeneration(t *testing.T) {
	t.Parallel()
	repeatable := func() []providers.Provider {
		return []providers.Provider{providers.Repeatable(7*24*time.Hour, "own.example")}
	}
	for _, row := range []struct {
		name   string
		script []reply
	}{
		{"after a refusal for now", []reply{says(429, ""), says(429, "")}},
		{"after a refused credential", []reply{says(401, "")}},
		{"after an answer that was lost", []reply{loses()}},
		{"after one that never left, and one that did", []reply{refuses(), says(503, ""), refuses()}},
	} {
		each(t, row.name, func(t *testing.T, j machine.Store) {
			l := (&line{}).Then(row.script...)
			var first *process
			for range len(row.script) + 1 {
				p := start(t, l, onceward.Config{Journal: j, Providers: repeatable(), Backoff: once})
				if first == nil {
					first = p
				}
				p.Ask(named(t, "order-1"), to(http.MethodPost, ownURL))
				pass(2 * time.Hour)
				_, err := p.Resume(t.Context())
				require.NoError(t, err)
				pass(2 * time.Hour)
			}
			dates := map[string]bool{}
			keys := map[string]bool{}
			for _, s := range l.Sent() {
				dates[s.Header.Get("Repeatability-First-Sent")] = true
				keys[s.Header.Get("Repeatability-Request-Id")] = true
			}
			require.NotEmpty(t, l.Sent())
			assert.Len(t, keys, 1)
			assert.Len(t, dates, 1)
			assert.NotContains(t, dates, "")
		})
	}
}

// transfer is a request to Wise, which may require a second factor.
var transfer = []option{
	to(http.MethodPost, "https://api.wise.com/v1/transfers"),
	with("Content-Type", "application/json"), body(`{"targetAccount":1,"details":{"reference":"rent"}}`),
}

// wantsApproval is Wise's answer to a caller without an approval.
var wantsApproval = says(403, "", "X-2fa-Approval-Result", "REJECTED", "X-2fa-Approval", "challenge-1")

// A second factor is sent with the caller's own request, and never recorded.
func TestSecondFactorIsTakenAndNeverKept(t *testing.T) {
	t.Parallel()
	wise := []providers.Provider{providers.Wise(24 * time.Hour)}
	for name, asked := range map[string]func(t *testing.T) context.Context{
		"named":            func(t *testing.T) context.Context { return named(t, "transfer-1") },
		"with its own key": func(t *testing.T) context.Context { return t.Context() },
	} {
		each(t, name+": asked again with it, it goes through", func(t *testing.T, j machine.Store) {
			l := (&line{}).Then(wantsApproval)
			p := start(t, l, onceward.Config{Journal: j, Providers: wise, Backoff: once})
			options := transfer
			if name != "named" {
				options = append(options[:2:2], body(`{"targetAccount":1,"details":{"reference":"rent"},"customerTransactionId":"5b0a3c1e-6c1f-4d0e-9a43-6f4f3f3a2f10"}`))
			}
			out := p.Ask(asked(t), options...)
			challenge := out.Header.Get("X-2fa-Approval")
			if e := (*onceward.Error)(nil); errors.As(out.Err, &e) {
				challenge = e.Response.Header.Get("X-2fa-Approval")
			}
			require.Equal(t, "challenge-1", challenge, "the caller learns what to approve")

			out = p.Ask(asked(t), append(options, with("X-2fa-Approval", challenge))...)
			require.NoError(t, out.Err)
			require.Len(t, l.Sent(), 2)
			assert.Equal(t, "challenge-1", l.Sent()[1].Header.Get("X-2fa-Approval"))
			op := p.Recorded(out.Op.Ref)
			assert.Contains(t, op.Request.WithheldHeaders, "X-2fa-Approval")
			assert.NotContains(t, op.Request.Header, "X-2fa-Approval")
		})
	}

	each(t, "the background never sends without it, and a call with a new one does", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(refuses())
		p := start(t, l, onceward.Config{Journal: j, Providers: wise, Backoff: once, Authorize: func(*http.Request) error { return nil }})
		out := p.Ask(named(t, "transfer-1"), append(transfer, with("X-2fa-Approval", "approved-1"))...)
		require.Error(t, out.Err)
		pass(3 * time.Hour)
		for range 3 {
			_, err := p.Resume(t.Context())
			require.NoError(t, err)
			pass(3 * time.Hour)
		}
		require.Empty(t, l.Sent())
		require.NoError(t, p.Ask(named(t, "transfer-1"), append(transfer, with("X-2fa-Approval", "approved-2"))...).Err)
		require.Len(t, l.Sent(), 1)
		assert.Equal(t, "approved-2", l.Sent()[0].Header.Get("X-2fa-Approval"))
	})

	each(t, "where keys are the credential's, another approval is no other credential", func(t *testing.T, j machine.Store) {
		scoped := own(func(e *providers.Endpoint) { e.InFlightGuard = true })
		scoped.CredentialScoped = true
		l := (&line{}).Then(loses())
		p := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{scoped}, Backoff: once})
		ask := func(approval string) outcome {
			return p.Ask(named(t, "order-1"), to(http.MethodPost, ownURL), bearer("t0k3n"), with("X-2fa-Approval", approval))
		}
		out := ask("approved-1")
		require.ErrorIs(t, out.Err, onceward.ErrPending)
		pass(time.Until(out.Op.DueAt))
		require.NoError(t, ask("approved-2").Err)
		assert.Len(t, l.Sent(), 2)
	})
}

func TestDateGoesWithTheCallersSignature(t *testing.T) {
	signed := func(day string) []option {
		return []option{to(http.MethodPost, ownURL), with("Date", day), with("X-Trace", day), with("Signature", "over "+day)}
	}
	guarded := []providers.Provider{own(func(e *providers.Endpoint) { e.InFlightGuard = true })}
	each(t, "it is sent again with the new ones, and in the background not at all", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(loses())
		p := start(t, l, onceward.Config{Journal: j, Providers: guarded, Backoff: once})
		out := p.Ask(named(t, "order-1"), signed("Monday")...)
		require.ErrorIs(t, out.Err, onceward.ErrPending)
		var e *onceward.Error
		require.True(t, errors.As(out.Err, &e))
		assert.False(t, e.InBackground)
		pass(time.Until(out.Op.DueAt))
		_, err := p.Resume(t.Context())
		require.NoError(t, err)
		require.Len(t, l.Sent(), 1)
		op := p.Recorded(onceward.Ref{ID: "order-1"})
		assert.Equal(t, []string{"Date", "Signature"}, op.Request.WithheldHeaders)

		pass(max(0, time.Until(op.DueAt)))
		require.NoError(t, p.Ask(named(t, "order-1"), signed("Tuesday")...).Err)
		require.Len(t, l.Sent(), 2)
		again := l.Sent()[1].Header
		assert.Equal(t, "Tuesday", again.Get("Date"))
		assert.Equal(t, "over Tuesday", again.Get("Signature"))
		assert.Equal(t, "Monday", again.Get("X-Trace"), "it may have run: what else was frozen stays")
	})
	each(t, "an unsent operation is sent as the new call has it", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(refuses())
		p := start(t, l, onceward.Config{Journal: j, Providers: guarded, Backoff: once})
		first := append(signed("Monday"), to(http.MethodPost, ownURL+"?a=1&b=2"))
		require.Error(t, p.Ask(named(t, "order-1"), first...).Err)
		pass(time.Hour)
		second := append(signed("Tuesday"), to(http.MethodPost, ownURL+"?b=2&a=1&api_key=k2"))
		require.NoError(t, p.Ask(named(t, "order-1"), second...).Err)
		require.Len(t, l.Sent(), 1)
		assert.Equal(t, "Tuesday", l.Sent()[0].Header.Get("X-Trace"))
		assert.Equal(t, ownURL+"?b=2&a=1&api_key=k2", l.Sent()[0].URL)
	})
}

// hosts is a transport that notes each request's Host.
type hosts struct {
	http.RoundTripper
	mu  sync.Mutex
	got []string
}

func (h *hosts) RoundTrip(req *http.Request) (*http.Response, error) {
	h.mu.Lock()
	host := req.Host
	if host == "" {
		host = req.URL.Host
	}
	h.got = append(h.got, host)
	h.mu.Unlock()
	return h.RoundTripper.RoundTrip(req)
}

func onHost(host string) option { return func(r *http.Request) { r.Host = host } }

// Every attempt sends the caller's own Host header. Without it the charge would go to another virtual host.
func TestHostHeaderIsSentByEveryAttempt(t *testing.T) {
	each(t, "those after a restart too", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(loses(), loses())
		h := &hosts{RoundTripper: l}
		p := start(t, h, onceward.Config{Journal: j, Backoff: backoff.Policy{MaxAttempts: 2}})
		require.ErrorIs(t, p.Ask(named(t, "order-1"), onHost("eu.example")).Err, onceward.ErrPending)
		p.Crash()
		pass(time.Hour)
		report, err := start(t, h, onceward.Config{Journal: j}).Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, report.Completed)
		assert.Equal(t, []string{"eu.example", "eu.example", "eu.example"}, h.got)
	})
	virtual(t, "and is part of the name's request", func(t *testing.T) {
		l := &line{}
		p := start(t, l, onceward.Config{})
		require.NoError(t, p.Ask(named(t, "order-1"), onHost("eu.example")).Err)
		require.NoError(t, p.Ask(named(t, "order-1"), onHost("EU.example:443")).Err)
		for _, other := range []string{"us.example", "api.stripe.com"} {
			out := p.Ask(named(t, "order-1"), onHost(other))
			require.ErrorIs(t, out.Err, onceward.ErrKeyReused)
			var e *onceward.Error
			require.ErrorAs(t, out.Err, &e)
			assert.Equal(t, []string{"URL"}, e.Differs)
		}
		assert.Len(t, l.Sent(), 1)
	})
}

// A resumed operation's cookies come from the jar and are never required.
func TestCookiesOfAResumedOperation(t *testing.T) {
	for name, full := range map[string]bool{"a jar": true, "none": false} {
		virtual(t, name, func(t *testing.T) {
			l := &line{}
			dead := start(t, l, onceward.Config{})
			leavesInFlight(t, dead, l, func() { dead.Ask(named(t, "invoice-1/charge"), with("Cookie", "session=old")) })
			hc := &http.Client{Transport: l}
			if full {
				jar, err := cookiejar.New(nil)
				require.NoError(t, err)
				jar.SetCookies(mustParse(chargeURL), []*http.Cookie{{Name: "session", Value: "new"}})
				hc.Jar = jar
			}
			report, err := start(t, l, onceward.Config{Journal: dead.Journal.Store, HTTPClient: hc}).Resume(t.Context())
			require.NoError(t, err)
			require.Equal(t, 1, report.Completed)
			assert.Equal(t, full, l.Sent()[1].Header.Get("Cookie") == "session=new")
		})
	}
}

func TestAuthorize(t *testing.T) {
	virtual(t, "may call through the same client", func(t *testing.T) {
		l := &line{}
		var p *process
		p = start(t, l, onceward.Config{Authorize: func(r *http.Request) error {
			if r.URL.Path == "/v1/tokens" {
				return nil
			}
			req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, "https://api.stripe.com/v1/tokens", http.NoBody)
			if err != nil {
				return err
			}
			resp, err := p.HTTP.Do(req)
			if err != nil {
				return err
			}
			r.Header.Set("Authorization", "Bearer fresh")
			return resp.Body.Close()
		}})
		out := p.Ask(named(t, "invoice-1/charge"))
		require.NoError(t, out.Err)
		require.Len(t, l.Sent(), 2, "for the credential, and the attempt")
		assert.Equal(t, "Bearer fresh", l.Sent()[1].Header.Get("Authorization"))
		assert.Equal(t, "invoice-1/charge", out.Op.ID)
		assert.NotEqual(t, l.Keys()[0], l.Keys()[1])
	})
	for name, authorize := range map[string]func(*http.Request) error{
		"that fails":              func(*http.Request) error { return errors.New("no token") },
		"that changes the host":   func(r *http.Request) error { r.URL.Host = "elsewhere.example"; return nil },
		"that changes the path":   func(r *http.Request) error { r.URL.Path = "/v1/refunds"; return nil },
		"that changes the method": func(r *http.Request) error { r.Method = http.MethodPut; return nil },
	} {
		virtual(t, name+" stops the attempt, and the name stays usable", func(t *testing.T) {
			l := &line{}
			broken := true
			p := start(t, l, onceward.Config{Authorize: func(r *http.Request) error {
				if broken {
					return authorize(r)
				}
				return nil
			}})
			out := p.Ask(named(t, "invoice-1/charge"))
			require.ErrorIs(t, out.Err, onceward.ErrNotSent)
			assert.Empty(t, l.Sent())
			broken = false
			require.NoError(t, p.Ask(named(t, "invoice-1/charge")).Err)
		})
	}
	virtual(t, "is called before every attempt", func(t *testing.T) {
		l := (&line{}).Then(loses(), unavailable)
		calls := 0
		p := start(t, l, onceward.Config{Authorize: func(*http.Request) error { calls++; return nil }})
		require.NoError(t, p.Ask(named(t, "invoice-1/charge")).Err)
		assert.Equal(t, 3, calls)
	})
}

// leftBody is a body that tells whether it was closed.
type leftBody struct {
	io.Reader
	closed bool
}

func (b *leftBody) Close() error {
	b.closed = true
	return nil
}

// The body that Authorize leaves is closed.
func TestAuthorizeLeavesABody(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l, left := &line{}, []*leftBody(nil)
		p := start(t, l, onceward.Config{Authorize: func(r *http.Request) error {
			b := &leftBody{Reader: strings.NewReader(chargeForm)}
			r.Body, left = b, append(left, b)
			return nil
		}})
		require.NoError(t, p.Ask(named(t, invoice)).Err)
		assert.Len(t, l.Sent(), 1)
		require.NotEmpty(t, left)
		for _, b := range left {
			assert.True(t, b.closed)
		}
	})
}

// The key is the journal's, whatever Authorize makes of the headers; where that leaves no place for it, nothing is sent.
func TestAuthorizeAndTheKey(t *testing.T) {
	virtual(t, "puts another", func(t *testing.T) {
		l := &line{}
		p := start(t, l, onceward.Config{Authorize: func(r *http.Request) error {
			r.Header.Set("Idempotency-Key", "another")
			return nil
		}})
		out := p.Ask(named(t, invoice))
		require.NoError(t, out.Err)
		assert.Equal(t, []string{string(out.Op.Key)}, l.Keys())
	})
	virtual(t, "says that the body is something else", func(t *testing.T) {
		place, l := elsewheres()[1], &line{}
		p := start(t, l, onceward.Config{Providers: []providers.Provider{takingKey(place.key)}, Authorize: func(r *http.Request) error {
			r.Header.Set("Content-Type", "text/plain")
			return nil
		}})
		require.ErrorIs(t, p.Ask(named(t, invoice), place.ask("")...).Err, onceward.ErrNotSent)
		assert.Empty(t, l.Sent())
	})
}

// A header without a value is no credential, however it is spelt.
func TestCredentialWithoutAValue(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(refuses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: once})
		require.ErrorIs(t, p.Ask(named(t, invoice), bearer("a")).Err, onceward.ErrPending)
		pass(time.Hour)
		p.Crash()
		p = start(t, l, onceward.Config{Journal: j, Backoff: once, Authorize: func(r *http.Request) error {
			r.Header["authorization"] = nil
			return nil
		}})
		report, err := p.Resume(t.Context())
		require.NoError(t, err)
		require.Len(t, report.Problems, 1)
		require.ErrorIs(t, report.Problems[0], onceward.ErrCredentialMissing)
		assert.Empty(t, l.Sent())
	})
}
