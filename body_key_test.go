package onceward_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
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

// elsewhere is a place for a key that is no header, and a request there.
type elsewhere struct {
	name string
	key  providers.Key
	ask  func(key string) []option // key "": it carries none
	find func(sent) string
}

const orders = "https://own.example/orders"

var jsonType = with("Content-Type", "application/json")

func bodyOf(s sent) providers.Message {
	u := mustParse(s.URL)
	return providers.Message{Header: s.Header, Query: u.RawQuery, Body: []byte(s.Body)}
}

// elsewheres are all places but the headers.
func elsewheres() []elsewhere {
	at := func(name string, key providers.Key, ask func(key string) []option) elsewhere {
		return elsewhere{name, key, ask, func(s sent) string {
			found, _, err := key.Carried(bodyOf(s))
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
		at("GraphQL literal", providers.Key{Place: providers.KeyGraphQL, Name: "@idempotent.key"}, func(key string) []option {
			text := `{"query":"mutation { refund(n: 1) @idempotent(key: \"` + key + `\") { id } }"}`
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

func TestANamedOperationKeepsItsKeyInTheBodyThoughTheSDKMakesUpANewOne(t *testing.T) {
	for _, place := range elsewheres() {
		each(t, place.name, func(t *testing.T, j journal.Journal) {
			l := &line{}
			cfg := onceward.Config{Journal: j, Providers: []providers.Provider{takingKey(place.key)}, Backoff: quick}
			first := start(t, l, cfg)
			l.then(loses(), doing(func() { first.crash() }, loses()))
			out := first.ask(named(t, "order-7"), place.ask("sdk-1")...)
			require.Error(t, out.err)

			second := start(t, l, cfg)
			out = second.ask(named(t, "order-7"), place.ask("sdk-2")...)
			require.NoError(t, out.err)
			assert.Equal(t, paid, out.body)

			got := l.sent()
			require.Len(t, got, 3)
			assert.Equal(t, "sdk-1", place.find(got[0]))
			for _, again := range got[1:] {
				assert.Equal(t, got[0].Body, again.Body)
				assert.Equal(t, got[0].URL, again.URL)
			}

			out = second.ask(named(t, "order-7"), place.ask("sdk-3")...)
			require.NoError(t, out.err)
			assert.True(t, out.op.Replayed)
			assert.Len(t, l.sent(), 3)
		})
	}
}

func TestResumeSendsTheSameBytesWithTheKeyInThem(t *testing.T) {
	for _, place := range elsewheres() {
		for _, carried := range []string{"", "sdk-1"} {
			if carried == "" && place.name == "GraphQL literal" {
				continue // which is always there
			}
			each(t, place.name+" "+carried, func(t *testing.T, j journal.Journal) {
				l := &line{}
				cfg := onceward.Config{Journal: j, Providers: []providers.Provider{takingKey(place.key)}, Backoff: quick}
				first := start(t, l, cfg)
				l.then(doing(func() { first.crash() }, loses()))
				require.Error(t, first.ask(t.Context(), place.ask(carried)...).err)

				report, err := start(t, l, cfg).Resume(t.Context())
				require.NoError(t, err)
				assert.Equal(t, 1, report.Completed, report.Problems)
				got := l.sent()
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

func TestAKeyInTheBodyOrQueryIsNoPartOfTheFingerprint(t *testing.T) {
	for _, place := range elsewheres() {
		virtual(t, place.name, func(t *testing.T) {
			l := &line{}
			p := start(t, l, onceward.Config{Providers: []providers.Provider{takingKey(place.key)}})
			require.NoError(t, p.ask(named(t, "order-7"), place.ask("sdk-1")...).err)
			require.NoError(t, p.ask(named(t, "order-7"), place.ask("sdk-2")...).err)
			if place.name != "GraphQL literal" {
				out := p.ask(named(t, "order-7"), place.ask("")...)
				require.NoError(t, out.err, "without a key it is the same request")
			}
			other := func(r *http.Request) {
				text, err := io.ReadAll(r.Body)
				require.NoError(t, err)
				changed := strings.NewReplacer("1.0", "2.0", "n: 1", "n: 2", "%2B1", "%2B2", "890", "891").Replace(string(text))
				require.NotEqual(t, string(text), changed)
				body(changed)(r)
			}
			out := p.ask(named(t, "order-7"), append(place.ask("sdk-1"), other)...)
			assert.ErrorIs(t, out.err, onceward.ErrKeyReused)
			assert.Len(t, l.sent(), 1)
		})
	}
}

func TestTheJournalHasNoKeyInItsURLAndDoesNotWithholdIt(t *testing.T) {
	l := &line{}
	place := elsewheres()[0]
	p := start(t, l, onceward.Config{Providers: []providers.Provider{takingKey(place.key)}})
	out := p.ask(named(t, "order-7"), place.ask("sdk-1")...)
	require.NoError(t, out.err)
	frozen := p.recorded(onceward.Ref{ID: "order-7"}).Request
	assert.Equal(t, orders+"?a=%31", frozen.URL)
	assert.Empty(t, frozen.WithheldQuery)
	assert.Equal(t, orders+"?a=%31&ClientToken=sdk-1", l.sent()[0].URL)
}

func TestAnUnnamedOperationIsKnownByTheKeyInItsBody(t *testing.T) {
	for _, place := range elsewheres() {
		virtual(t, place.name, func(t *testing.T) {
			l := &line{}
			p := start(t, l, onceward.Config{Providers: []providers.Provider{takingKey(place.key)}})
			first, second := p.ask(t.Context(), place.ask("sdk-1")...), p.ask(t.Context(), place.ask("sdk-1")...)
			require.NoError(t, first.err)
			require.NoError(t, second.err)
			assert.Equal(t, "sdk-1", first.op.ID)
			assert.True(t, second.op.Replayed)
			assert.Len(t, l.sent(), 1)
		})
	}
}

func TestTheLengthOfABodyIsThatOfWhatIsSent(t *testing.T) {
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
		require.NoError(t, p.ask(named(t, text), to(http.MethodPost, srv.URL+"/orders"), body(text), jsonType).err)
	}
	require.Len(t, bodies, 2)
	assert.Len(t, bodies[0], len(`{"idempotency_key":""}`)+36)
	assert.Equal(t, `{"idempotency_key":"a"}`, bodies[1])
	assert.Equal(t, []int64{int64(len(bodies[0])), int64(len(bodies[1]))}, lengths)
}

// signature is over everything that is sent but itself.
func signature(method string, u *url.URL, key, text string) string {
	sum := sha256.Sum256([]byte(method + u.String() + key + text))
	return hex.EncodeToString(sum[:])
}

func TestAuthorizeSignsTheRequestAsItIsSent(t *testing.T) {
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
		each(t, place.name, func(t *testing.T, j journal.Journal) {
			l := (&line{}).then(loses())
			cfg := onceward.Config{Journal: j, Providers: []providers.Provider{takingKey(place.key)}, Backoff: quick, Authorize: sign}
			first := start(t, l, cfg)
			l.then(doing(func() { first.crash() }, loses()))
			require.Error(t, first.ask(t.Context(), place.ask("sdk-1")...).err)
			report, err := start(t, l, cfg).Resume(t.Context())
			require.NoError(t, err)
			assert.Equal(t, 1, report.Completed, report.Problems)
			require.Len(t, l.sent(), 3)
			for _, s := range l.sent() {
				assert.Equal(t, signature(s.Method, mustParse(s.URL), s.Key, s.Body), s.Header.Get("X-Signature"))
			}
		})
	}
}

func TestAuthorizeMayReadTheBodyAndNotChangeIt(t *testing.T) {
	place := elsewheres()[0]
	for _, tc := range []struct {
		name  string
		does  func(*http.Request)
		fails bool
	}{
		{"puts back what it read", func(r *http.Request) {
			text, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(text))
		}, false},
		{"puts nothing back", func(r *http.Request) { r.Body = http.NoBody }, false},
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
			out := p.ask(t.Context(), place.ask("sdk-1")...)
			if tc.fails {
				require.Error(t, out.err)
				assert.Contains(t, out.err.Error(), "Config.Authorize changed more")
				assert.Empty(t, l.sent())
				return
			}
			require.NoError(t, out.err)
			require.Len(t, l.sent(), 1)
			assert.Equal(t, `{"n":1.0}`, l.sent()[0].Body)
		})
	}
}

func TestTheTimeOfTheFirstAttemptIsSentWithEveryOne(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := (&line{}).then(loses(), says(503, "", "Retry-After", "5"))
		table := own(func(e *providers.Endpoint) {
			e.Key = providers.Key{Place: providers.KeyRawHeader, Name: "Repeatability-Request-ID", FirstSent: "Repeatability-First-Sent"}
		})
		p := start(t, l, onceward.Config{Providers: []providers.Provider{table}})
		began := time.Now()
		out := p.ask(named(t, "order-7"), to(http.MethodPost, orders), with("Repeatability-First-Sent", "yesterday"))
		require.NoError(t, out.err)
		require.Len(t, l.sent(), 3)
		for _, s := range l.sent() {
			assert.Equal(t, []string{began.UTC().Format(http.TimeFormat)}, s.Header["Repeatability-First-Sent"])
		}
		assert.True(t, time.Since(began) > time.Second, "the attempts were not apart")
		assert.NotContains(t, p.recorded(onceward.Ref{ID: "order-7"}).Request.Header, "Repeatability-First-Sent")
	})
}

// graph is a GraphQL API: queries have no effect, mutations that have a directive
// take their key there.
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
	aMutation = `{"query":"mutation { refund @idempotent(key: \"sdk-1\") { id } }"}`
	keyless   = `{"query":"mutation { refund { id } }"}`
)

func TestAGraphQLQueryPassesThroughAndAMutationIsJournaled(t *testing.T) {
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
			out := p.ask(ctx, tc.ask...)
			if tc.refused != "" {
				assert.ErrorIs(t, out.err, onceward.ErrInvalidRequest)
				assert.ErrorContains(t, out.err, tc.refused)
				assert.Empty(t, l.sent())
				assert.Empty(t, p.everything())
				return
			}
			require.NoError(t, out.err)
			require.Len(t, l.sent(), 1)
			request, err := http.NewRequest(http.MethodPost, orders, nil)
			require.NoError(t, err)
			tc.ask[1](request)
			want, err := io.ReadAll(request.Body)
			require.NoError(t, err)
			assert.Equal(t, string(want), l.sent()[0].Body)
			ops := p.everything()
			if !tc.journaled {
				assert.Empty(t, ops)
				return
			}
			require.Len(t, ops, 1)
			assert.Equal(t, tc.key, ops[0].Key)
		})
	}
}

func TestAMutationThatTakesNoKeyIsNotSentAgain(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := (&line{}).then(loses())
		p := start(t, l, onceward.Config{Providers: []providers.Provider{graph()}})
		out := p.ask(named(t, "refund-7"), graphQL(keyless)...)
		assert.ErrorIs(t, out.err, onceward.ErrOutcomeUnknown)
		assert.Len(t, l.sent(), 1)
	})
}

func TestABodyThatCanNotCarryTheKeyIsRefusedBeforeAnythingIsRecordedOrSent(t *testing.T) {
	table := takingKey(providers.Key{Place: providers.KeyJSONField, Name: "idempotency_key", MaxLength: 40})
	for name, tc := range map[string]struct {
		text   string
		and    option
		reason string
	}{
		"empty":      {"", jsonType, "{} at least"},
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
			out := p.ask(named(t, "order-7"), to(http.MethodPost, orders), body(tc.text), tc.and)
			require.ErrorIs(t, out.err, onceward.ErrInvalidRequest)
			var invalid *providers.KeyError
			require.ErrorAs(t, out.err, &invalid)
			assert.Contains(t, invalid.Reason, tc.reason)
			assert.Empty(t, l.sent())
			assert.Empty(t, p.everything())
		})
	}
}

// donor answers a repeat by the resource of the first, which it has to be asked for.
func donor(adjust ...func(*providers.Endpoint)) providers.Provider {
	return own(append([]func(*providers.Endpoint){func(e *providers.Endpoint) {
		e.FetchPointer = true
		e.Rules = append([]providers.Rule{
			{Status: 409, Field: "error.reason", Equals: "done", Verdict: providers.AlreadyDone, Pointer: "error.id"},
			{Status: 404, Verdict: providers.Misuse},
		}, e.Rules...)
	}}, adjust...)...)
}

func done(id string) reply { return says(409, `{"error":{"reason":"done","id":"`+id+`"}}`) }

func TestWhatAnAnswerPointsToIsFetchedWhereTheContractSaysSo(t *testing.T) {
	const conflict, resource = `{"error":{"reason":"done","id":"PM1"}}`, `{"id":"PM1","amount":1}`
	for _, tc := range []struct {
		name   string
		replay reply
		status int
		body   string
	}{
		{"it is there", says(200, resource, "X-Of", "the resource"), 200, resource},
		{"it is not", says(404, `{}`), 409, conflict},
		{"it moved", says(302, "", "Location", "https://own.example/x"), 409, conflict},
		{"the connection fails", loses(), 409, conflict},
		{"it comes cut short", cuts(200, resource), 409, conflict},
		{"it is over the limit", says(200, `"`+strings.Repeat("x", 200)+`"`), 409, conflict},
		{"nothing comes in the attempt's time", hangs(), 409, conflict},
	} {
		virtual(t, tc.name, func(t *testing.T) {
			l := (&line{}).then(loses(), done("PM1"), tc.replay)
			var attempts int
			p := start(t, l, onceward.Config{
				Providers:       []providers.Provider{donor()},
				MaxResponseBody: 100,
				AttemptTimeout:  10 * time.Second,
				Authorize: func(r *http.Request) error {
					r.Header.Set("Authorization", "Bearer of "+r.Method)
					return nil
				},
				Trace: &onceward.Trace{Attempted: func(onceward.Operation, onceward.Attempt) { attempts++ }},
			})
			out := p.ask(named(t, "order-7"), to(http.MethodPost, orders+"/?v=2"), body(`{"n":1}`), jsonType,
				with("Accept-Version", "2"), with("X-Api-Key", "s3cret"))
			require.NoError(t, out.err)
			assert.Equal(t, tc.status, out.status)
			assert.Equal(t, tc.body, out.body)
			assert.Equal(t, "PM1", out.op.Answer.Pointer)
			assert.Equal(t, 2, attempts)

			got := l.sent()
			require.Len(t, got, 3)
			get := got[2]
			assert.Equal(t, http.MethodGet, get.Method)
			assert.Equal(t, orders+"/PM1?v=2", get.URL)
			assert.Empty(t, get.Body)
			assert.Empty(t, get.Key, "the GET has the key")
			assert.Empty(t, get.Header.Get("Content-Type"))
			assert.Equal(t, "2", get.Header.Get("Accept-Version"))
			assert.Equal(t, "s3cret", get.Header.Get("X-Api-Key"))
			assert.Equal(t, "Bearer of GET", get.Header.Get("Authorization"))

			require.Len(t, p.everything(), 1)
			answer := p.recorded(onceward.Ref{ID: "order-7"}).Answer
			assert.Equal(t, tc.status, answer.Status)
			assert.Equal(t, "PM1", answer.Pointer)
			assert.False(t, answer.Refused)

			again := p.ask(named(t, "order-7"), to(http.MethodPost, orders+"/?v=2"), body(`{"n":1}`), jsonType, with("X-Api-Key", "s3cret"))
			require.NoError(t, again.err)
			assert.Equal(t, tc.body, again.body, "the replay is another answer")
			assert.Len(t, l.sent(), 3)
		})
	}
}

func TestAPointerThatIsNoNameIsNotFetched(t *testing.T) {
	for _, id := range []string{"..", ".", "../../admin", `a\\b`, "a;b"} {
		virtual(t, id, func(t *testing.T) {
			l := (&line{}).then(loses(), done(id))
			p := start(t, l, onceward.Config{Providers: []providers.Provider{donor()}})
			out := p.ask(named(t, "order-7"), to(http.MethodPost, orders), body(`{}`), jsonType)
			require.NoError(t, out.err)
			assert.Equal(t, 409, out.status)
			assert.Len(t, l.sent(), 2)
		})
	}
	virtual(t, "escaped", func(t *testing.T) {
		l := (&line{}).then(loses(), done("a b?c#d%2e"))
		p := start(t, l, onceward.Config{Providers: []providers.Provider{donor()}})
		require.NoError(t, p.ask(named(t, "order-7"), to(http.MethodPost, orders), body(`{}`), jsonType).err)
		require.Len(t, l.sent(), 3)
		assert.Equal(t, orders+"/a%20b%3Fc%23d%252e", l.sent()[2].URL)
	})
}

func TestResumeFetchesToo(t *testing.T) {
	each(t, "", func(t *testing.T, j journal.Journal) {
		l := &line{}
		var settled []string
		cfg := onceward.Config{Journal: j, Providers: []providers.Provider{donor()}, Backoff: quick,
			OnSettled: func(_ context.Context, op onceward.Operation) error {
				settled = append(settled, fmt.Sprintf("%d %s %s", op.Answer.Status, op.Answer.Pointer, op.Answer.Body))
				return nil
			}}
		first := start(t, l, cfg)
		l.then(doing(func() { first.crash() }, loses()), done("PM1"), says(200, `{"id":"PM1"}`))
		require.Error(t, first.ask(named(t, "order-7"), to(http.MethodPost, orders), body(`{}`), jsonType).err)
		_, err := start(t, l, cfg).Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []string{`200 PM1 {"id":"PM1"}`}, settled)
	})
}
