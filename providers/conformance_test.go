package providers_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// contract is an adapter, and its requests as they go over the wire. The page of the provider is the record of every
// other fact: see TestDocumentedPages.
//
// Requests are written as text. The first line has the method and the URL. Then come header lines and, after an empty
// line, the body, as far as they matter.
type contract struct {
	adapter providers.Provider

	// sent are requests as they go out with conformanceKey.
	sent []sent

	// unfit are requests whose bodies can't carry the key. They are refused before anything is sent.
	unfit []string
}

// sent is a request as a caller makes it and as it goes out, byte for byte. Only the ends of header lines differ:
// here they are a bare \n.
type sent struct {
	request, wire string
}

// row is one kind of answer and its meaning on a first and a later attempt.
type row struct {
	name         string
	status       int
	header       string // "Name: value", or several with "; "
	body         string
	first, later providers.Verdict
}

const conformanceKey = "8e03978e-40d5-43e8-bc93-6894a57f9324"

var conformanceTime = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, c := range contracts() {
		t.Run(c.adapter.Name, func(t *testing.T) {
			require.NoError(t, c.adapter.Validate())
			s := suite{contract: c, router: newRouter(t, c.adapter)}
			t.Run("every fact has a source", s.everyFactHasASource)
			t.Run("facts in doubt are read with care", s.doubtIsReadWithCare)
			t.Run("the key goes to its documented place", s.theKeyGoesWhereItIsTaken)
			t.Run("every endpoint takes a key of ours", s.aKeyOfOursIsTaken)
			t.Run("requests that can't carry the key are refused", s.unfitRequestsAreRefused)
			t.Run("an answer of something in between proves nothing", s.strangeAnswersProveNothing)
			t.Run("every rule reads its answer", s.everyRuleReadsItsAnswer)
		})
	}
}

type suite struct {
	contract
	router *tables.Router
}

// route is the contract that a request is under, as its text selects it.
func (s suite) route(t testing.TB, text string) tables.Route {
	t.Helper()
	req, message := request(t, text)
	rt := s.router.Route(req.Method, req.URL).For(message)
	require.False(t, rt.Undecided, text)
	return rt
}

// sources are the marks of confidence that every fact carries. A fact from the caller or from this module says so
// instead.
const sources = `\[(D|D-old|S|C|M|\?)\]|the documentation of Raw|the caller`

func (s suite) everyFactHasASource(t *testing.T) {
	assert.Regexp(t, sources, s.adapter.Source)
	if s.adapter.SecretSource != "" {
		assert.Regexp(t, sources, s.adapter.SecretSource, "secrets")
	}
	for _, e := range s.adapter.Endpoints {
		assert.Regexp(t, sources, e.Source, e.Pattern)
		for i, rule := range e.Rules {
			assert.Regexp(t, sources, rule.Source, "%s, rule %d", e.Pattern, i)
		}
		if e.Reference.Place != providers.KeyNone {
			assert.Regexp(t, sources, e.Reference.Source, "%s, reference", e.Pattern)
		}
		for i, look := range e.Lookups {
			assert.Regexp(t, sources, look.Source, "%s, look-up %d", e.Pattern, i)
		}
	}
	for i, rule := range s.adapter.Events {
		assert.Regexp(t, sources, rule.Source, "event %d", i)
	}
	if s.adapter.Identity.Path != "" {
		assert.Regexp(t, sources, s.adapter.Identity.Source, "identity")
	}
}

// doubtIsReadWithCare checks that no rule which sends a request again or settles an operation rests on a doubtful
// fact. Such facts are marked as unpublished or unconfirmed.
func (s suite) doubtIsReadWithCare(t *testing.T) {
	doubtful := func(source string) bool {
		return strings.Contains(source, "[?]") || strings.Contains(source, "[M]")
	}
	for _, e := range s.adapter.Endpoints {
		if doubtful(e.Source) {
			assert.Zero(t, termsOf(e).Window(), "%s is sent again on a fact in doubt: %s", e.Pattern, e.Source)
		}
		assert.NotContains(t, e.Reference.Source, "[M]", "%s, reference", e.Pattern)
		for i, look := range e.Lookups {
			assert.NotContains(t, look.Source, "[M]", "%s, look-up %d finds by a fact in doubt", e.Pattern, i)
			assert.Regexp(t, `\[(D|S)`, look.Source, "%s, look-up %d is nowhere to be read", e.Pattern, i)
		}
		for i, rule := range e.Rules {
			if !doubtful(rule.Source) {
				continue
			}
			careful := rule.Verdict == providers.Retry || rule.Verdict == providers.Indeterminate ||
				rule.Verdict == providers.Misuse ||
				rule.Verdict == providers.Final && (rule.On == providers.FirstAttempt || rule.On == providers.FirstAttemptOwnKey)
			assert.True(t, careful, "%s, rule %d: %v rests on a fact in doubt: %s", e.Pattern, i, rule.Verdict, rule.Source)
		}
	}
}

// identity returns a name that is different for each endpoint of an adapter.
func identity(e providers.Endpoint) string {
	if e.Action == (providers.Action{}) {
		return e.Pattern
	}
	return fmt.Sprintf("%s, action %s %s", e.Pattern, e.Action.Name, e.Action.Value)
}

func (s suite) theKeyGoesWhereItIsTaken(t *testing.T) {
	for _, tc := range s.sent {
		name, _, _ := strings.Cut(tc.request, "\n")
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.wire, wire(t, s.route(t, tc.request), tc.request))
		})
	}
}

func (s suite) aKeyOfOursIsTaken(t *testing.T) {
	for _, e := range s.adapter.Endpoints {
		assert.NoError(t, tables.Key(e.Key).Check(conformanceKey), identity(e))
	}
}

func (s suite) unfitRequestsAreRefused(t *testing.T) {
	for _, text := range s.unfit {
		_, message := request(t, text)
		before := string(message.Body)
		var invalid *tables.KeyError
		assert.ErrorAs(t, tables.Key(s.route(t, text).Endpoint.Key).Set(&message, conformanceKey, conformanceTime), &invalid, text)
		assert.NotContains(t, invalid.Error(), conformanceKey)
		assert.Equal(t, before, string(message.Body), "%s: the message is left as it was", text)
	}
}

// termsOf puts an endpoint in the words of the journal's rule, as the client
// does.
func termsOf(e providers.Endpoint) journal.Terms {
	t := journal.Terms{Retention: e.Retention, Guard: e.InFlightGuard, Handling: e.HandlingTime}
	if e.Key.Place != providers.KeyNone {
		t.Remembers = e.Remembers
	}
	return t
}

func checkRows(t *testing.T, rt tables.Route, rows []row) {
	t.Helper()
	for _, tc := range rows {
		t.Run(tc.name, func(t *testing.T) {
			first, later := rt.Classify(tc.answer(false)), rt.Classify(tc.answer(true))
			assert.Equal(t, tc.first.String(), first.Verdict.String(), "first attempt: %s", first.Source)
			assert.Equal(t, tc.later.String(), later.Verdict.String(), "later attempt: %s", later.Source)
		})
	}
}

func (tc row) answer(later bool) tables.Answer {
	a := tables.Answer{Status: tc.status, Header: http.Header{}, Body: []byte(tc.body), Later: later}
	if tc.header != "" {
		for line := range strings.SplitSeq(tc.header, "; ") {
			name, value, _ := strings.Cut(line, ": ")
			a.Header.Add(name, value)
		}
	}
	return a
}

// request reads a request from its text. Its URL and header are the message's too.
func request(t testing.TB, text string) (*http.Request, tables.Message) {
	t.Helper()
	head, body, _ := strings.Cut(text, "\n\n")
	line, header, _ := strings.Cut(head, "\n")
	method, rawURL, found := strings.Cut(line, " ")
	require.True(t, found, text)
	u, err := url.Parse(rawURL)
	require.NoError(t, err)
	req := &http.Request{Method: method, URL: u, Host: u.Host, Header: http.Header{}}
	for line := range strings.Lines(header) {
		name, value, found := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		require.True(t, found, line)
		req.Header.Add(name, value)
	}
	return req, tables.Message{Header: req.Header, Query: u.RawQuery, Body: []byte(body)}
}

// wire is the request as it goes out with conformanceKey, first sent at
// conformanceTime.
func wire(t testing.TB, rt tables.Route, text string) string {
	t.Helper()
	req, message := request(t, text)
	require.NoError(t, tables.Key(rt.Endpoint.Key).Set(&message, conformanceKey, conformanceTime))
	if rt.Endpoint.Key.Place != providers.KeyNone {
		key, present, err := tables.Key(rt.Endpoint.Key).Carried(message)
		require.NoError(t, err)
		require.True(t, present, "what was put in has to be found again")
		require.Equal(t, conformanceKey, key)
	}
	req.URL.RawQuery = message.Query
	if len(message.Body) > 0 {
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(message.Body)), int64(len(message.Body))
	}
	req.Header["User-Agent"] = []string{""} // net/http's own is left out
	var out bytes.Buffer
	require.NoError(t, req.Write(&out))
	return strings.ReplaceAll(out.String(), "\r\n", "\n")
}

// Rows that every adapter has.
var (
	refusedRows = []row{
		{"a wrong credential", 401, "", "", rejected, rejected},
		{"no permission", 403, "", "", rejected, rejected},
		{"a proxy that wants a credential", 407, "", "", rejected, rejected},
	}
)

const (
	final         = providers.Final
	rejected      = providers.Rejected
	notExecuted   = providers.NotExecuted
	retry         = providers.Retry
	inFlight      = providers.InFlight
	alreadyDone   = providers.AlreadyDone
	misuse        = providers.Misuse
	answerGone    = providers.AnswerGone
	indeterminate = providers.Indeterminate

	everything    = providers.Everything
	successes     = providers.Successes
	lostAnswers   = providers.SuccessesLostAnswers
	cleanFailures = providers.SuccessesCleanFailures

	day  = 24 * time.Hour
	html = "<html><body><h1>503 Service Unavailable</h1></body></html>"
)

func newRouter(t testing.TB, ps ...providers.Provider) *tables.Router {
	t.Helper()
	r, err := tables.NewRouter(ps)
	require.NoError(t, err)
	return r
}

func route(t testing.TB, r *tables.Router, method, rawURL string) tables.Route {
	t.Helper()
	u, err := url.Parse(rawURL)
	require.NoError(t, err)
	return r.Route(method, u)
}
