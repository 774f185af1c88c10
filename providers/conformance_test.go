package providers_test

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// contract is the expected behavior of an adapter. It is written from the provider's documentation, by hand, and not
// from the adapter's table.
//
// Requests are written as text. The first line has the method and the URL. Then come header lines and, after an empty
// line, the body, as far as they matter.
type contract struct {
	adapter providers.Provider

	// terms say where keys go and which requests may be sent again.
	terms []terms

	// noEffect are requests that are never journaled. unlisted are requests that no endpoint describes, so that they
	// are sent once and not again.
	noEffect, unlisted []string

	// unfit are requests whose bodies can't carry the key. They are refused before anything is sent.
	unfit []string

	// sent are requests as they go out with conformanceKey.
	sent []sent

	// answers are the meanings of answers.
	answers []answers

	// ownKey are the meanings of answers to requests whose key was made for them at random, if these differ on a
	// first attempt.
	ownKey []answers
}

// terms are facts that a group of requests has in common.
type terms struct {
	requests []string

	key      string   // where it goes, as in "raw header Idempotency-Key"; "none"
	min, max int      // its length; 0: no bound
	version  int      // of UUID, which it has to be; 0: any text
	refuses  []string // keys of a fitting length that are refused all the same

	retention time.Duration
	remembers providers.Memory
	guard     bool
	handling  time.Duration
	secret    bool

	idempotent   bool     // by the provider's word
	refusals     bool     // register no key
	secretFields []string // of the request

	// resent says that a request that may have run is sent again with its key,
	// inside the retention.
	resent bool
}

// sent is a request as a caller makes it and as it goes out, byte for byte. Only the ends of header lines differ:
// here they are a bare \n.
type sent struct {
	request, wire string
}

// answers are rows of answers to one request.
type answers struct {
	request string
	rows    []row
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
			t.Run("every endpoint has its terms", s.everyEndpointHasTerms)
			t.Run("requests without effect are left alone", s.requestsWithoutEffectAreLeftAlone)
			t.Run("a request that is not described is sent once", s.whatIsNotDescribedIsSentOnce)
			t.Run("the key goes to its documented place", s.theKeyGoesWhereItIsTaken)
			t.Run("keys are refused before anything is sent", s.keysAreRefused)
			t.Run("requests that can't carry the key are refused", s.unfitRequestsAreRefused)
			t.Run("the retention bounds resends", s.theRetentionBoundsResends)
			t.Run("answers get their verdicts", s.answersGetTheirVerdicts)
			t.Run("every rule is reached", s.everyRuleIsReached)
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
			assert.Zero(t, look.Absent, "%s, look-up %d: no provider publishes what proves an absence", e.Pattern, i)
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

func (s suite) everyEndpointHasTerms(t *testing.T) {
	named := map[string]bool{}
	for _, group := range s.terms {
		for _, text := range group.requests {
			rt := s.route(t, text)
			assert.True(t, rt.Listed, text)
			assert.True(t, rt.Effect, text)
			named[identity(*rt.Endpoint)] = true
			assert.Equal(t, cmp.Or(group.key, "none"), keyOf(rt.Endpoint.Key), text)
			assert.Equal(t, group.version, rt.Endpoint.Key.UUIDVersion, "%s: version of UUID", text)
			assert.Equal(t, group.retention, rt.Endpoint.Retention, "%s: retention", text)
			assert.Equal(t, group.remembers.String(), rt.Endpoint.Remembers.String(), "%s: memory", text)
			assert.Equal(t, group.guard, rt.Endpoint.InFlightGuard, "%s: guard", text)
			assert.Equal(t, group.handling, rt.Endpoint.HandlingTime, "%s: handling time", text)
			assert.Equal(t, group.secret, rt.Endpoint.SecretResponse, "%s: secret response", text)
			assert.Equal(t, group.idempotent, rt.Endpoint.Idempotent, "%s: idempotent", text)
			assert.Equal(t, group.refusals, rt.Endpoint.RefusalsRegisterNoKey, "%s: refusals register no key", text)
			assert.ElementsMatch(t, group.secretFields, rt.Endpoint.SecretRequest, "%s: secret request", text)
		}
	}
	for _, text := range s.noEffect {
		named[identity(*s.route(t, text).Endpoint)] = true
	}
	for _, e := range s.adapter.Endpoints {
		assert.True(t, named[identity(e)], "nothing is said of %s", identity(e))
	}
}

// identity returns a name that is different for each endpoint of an adapter.
func identity(e providers.Endpoint) string {
	if e.Action == (providers.Action{}) {
		return e.Pattern
	}
	return fmt.Sprintf("%s, action %s %s", e.Pattern, e.Action.Name, e.Action.Value)
}

func keyOf(k providers.Key) string {
	switch {
	case k.Place == providers.KeyNone:
		return "none"
	case k.FirstSent != "":
		return fmt.Sprintf("%s %s, with %s", k.Place, k.Name, k.FirstSent)
	}
	return fmt.Sprintf("%s %s", k.Place, k.Name)
}

func (s suite) requestsWithoutEffectAreLeftAlone(t *testing.T) {
	for _, text := range s.noEffect {
		rt := s.route(t, text)
		assert.True(t, rt.Listed, text)
		assert.False(t, rt.Effect, text)
	}
}

func (s suite) whatIsNotDescribedIsSentOnce(t *testing.T) {
	for _, text := range s.unlisted {
		rt := s.route(t, text)
		assert.False(t, rt.Listed, text)
		assert.True(t, rt.Effect, text)
		assert.Zero(t, termsOf(*rt.Endpoint).Window(), text)
	}
}

func (s suite) theKeyGoesWhereItIsTaken(t *testing.T) {
	for _, tc := range s.sent {
		name, _, _ := strings.Cut(tc.request, "\n")
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.wire, wire(t, s.route(t, tc.request), tc.request))
		})
	}
}

func (s suite) keysAreRefused(t *testing.T) {
	for _, group := range s.terms {
		if group.key == "none" || group.key == "" {
			continue
		}
		var keys []string
		for _, n := range []int{group.min - 1, group.min, 1, 36, group.max, group.max + 1, 4096} {
			if n > 0 && group.version == 0 {
				keys = append(keys, strings.Repeat("7", n))
			}
		}
		for _, text := range group.requests {
			key := s.route(t, text).Endpoint.Key
			for _, k := range keys {
				fits := len(k) >= group.min && (group.max == 0 || len(k) <= group.max)
				assert.Equal(t, fits, tables.Key(key).Check(k) == nil, "%s: a key of %d characters", text, len(k))
			}
			for _, k := range append(group.refuses, "", " "+conformanceKey, conformanceKey+"\n", "schlüssel-schlüssel") {
				var invalid *tables.KeyError
				assert.ErrorAs(t, tables.Key(key).Check(k), &invalid, "%s: %q", text, k)
			}
			assert.NoError(t, tables.Key(key).Check(conformanceKey), "%s: a key of our own", text)
		}
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

// theRetentionBoundsResends asks the journal's rule about an attempt that may
// have run, under each endpoint's terms.
func (s suite) theRetentionBoundsResends(t *testing.T) {
	sentAt := conformanceTime
	for _, group := range s.terms {
		for _, text := range group.requests {
			failed := false
			may := func(ran bool, after time.Duration) machine.PermissionAnswer {
				return machine.MaySend(machine.Question{
					MayHaveRun: ran, Failed: failed, Terms: termsOf(*s.route(t, text).Endpoint),
					FirstSentAt: sentAt, LastEndedAt: sentAt, Clock: sentAt.Add(after), Last: sentAt.Add(after),
				}).Answer
			}
			assert.Equal(t, machine.SendNow, may(false, 1000*day), "%s: nothing has run", text)
			if !group.resent {
				assert.Equal(t, machine.Never, may(true, 0), "%s: at once", text)
				assert.Equal(t, machine.Never, may(true, group.handling), "%s: after the handling time", text)
				continue
			}
			end := group.retention - min(group.retention/4, time.Hour)
			assert.Equal(t, machine.SendNow, may(true, group.handling), "%s: as soon as the first can't be running", text)
			assert.Equal(t, machine.SendNow, may(true, end-time.Millisecond), "%s: just before the end", text)
			failed = true
			afterFailure := machine.SendNow
			if group.remembers == providers.SuccessesLostAnswers {
				afterFailure = machine.Never
			}
			assert.Equal(t, afterFailure, may(true, group.handling), "%s: after a failure that was received", text)
			failed = false
			assert.Equal(t, machine.Never, may(true, end), "%s: at the end less the margin", text)
			assert.Equal(t, machine.Never, may(true, group.retention), "%s: at the end", text)
			assert.Equal(t, machine.Never, may(true, group.retention+time.Second), "%s: after the end", text)
			if group.handling > 0 && !group.guard {
				assert.Equal(t, machine.NotBefore, may(true, group.handling-time.Millisecond), "%s: while the first may be running", text)
			}
		}
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

func (s suite) answersGetTheirVerdicts(t *testing.T) {
	for _, group := range s.answers {
		name, _, _ := strings.Cut(group.request, "\n")
		t.Run(name, func(t *testing.T) {
			checkRows(t, s.route(t, group.request), group.rows)
		})
	}
	for _, group := range s.ownKey {
		name, _, _ := strings.Cut(group.request, "\n")
		t.Run("own key, "+name, func(t *testing.T) {
			for _, tc := range group.rows {
				a := tc.answer(false)
				a.OwnKey = true
				got := s.route(t, group.request).Classify(a)
				assert.Equal(t, tc.first.String(), got.Verdict.String(), "%s: %s", tc.name, got.Source)
				a.Later = true
				got = s.route(t, group.request).Classify(a)
				assert.Equal(t, tc.later.String(), got.Verdict.String(), "%s, on a later attempt: %s", tc.name, got.Source)
			}
		})
	}
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

// everyRuleIsReached finds the rules that no row of the contract's answers puts
// to the test, on each occasion that they speak of. Endpoints that have the same
// rules need them tested once.
func (s suite) everyRuleIsReached(t *testing.T) {
	numbered := s.adapter
	numbered.Endpoints = nil
	for _, e := range s.adapter.Endpoints {
		rules := make([]providers.Rule, len(e.Rules))
		for i, rule := range e.Rules {
			rule.Source = fmt.Sprint(i)
			rules[i] = rule
		}
		e.Rules = rules
		numbered.Endpoints = append(numbered.Endpoints, e)
	}
	n := suite{contract: s.contract, router: newRouter(t, numbered)}
	hit := func(rule string, later bool) string { return fmt.Sprintf("%s, later: %t", rule, later) }
	own := func(rule string) string { return rule + ", own key" }

	type tested struct {
		rules   []providers.Rule
		pattern string
		reached map[string]bool
	}
	var all []*tested
	find := func(e providers.Endpoint) *tested {
		for _, set := range all {
			if reflect.DeepEqual(set.rules, e.Rules) {
				return set
			}
		}
		all = append(all, &tested{e.Rules, identity(e), map[string]bool{}})
		return all[len(all)-1]
	}
	for _, e := range numbered.Endpoints {
		find(e)
	}
	for _, group := range s.answers {
		rt := n.route(t, group.request)
		require.True(t, rt.Listed, group.request)
		set := find(*rt.Endpoint)
		for _, tc := range group.rows {
			for _, later := range []bool{false, true} {
				set.reached[hit(rt.Classify(tc.answer(later)).Source, later)] = true
			}
		}
	}
	for _, group := range s.ownKey {
		set := find(*n.route(t, group.request).Endpoint)
		for _, tc := range group.rows {
			a := tc.answer(false)
			a.OwnKey = true
			set.reached[own(n.route(t, group.request).Classify(a).Source)] = true
		}
	}
	for _, set := range all {
		for i, rule := range set.rules {
			if rule.On == providers.FirstAttemptOwnKey {
				assert.True(t, set.reached[own(fmt.Sprint(i))], "%s, rule %d with a key of our own: %+v", set.pattern, i, rule)
				continue
			}
			if rule.On != providers.LaterAttempt && !shadowed(rule, set.rules[:i], providers.FirstAttempt) {
				assert.True(t, set.reached[hit(fmt.Sprint(i), false)], "%s, rule %d on a first attempt: %+v", set.pattern, i, rule)
			}
			if rule.On != providers.FirstAttempt && !shadowed(rule, set.rules[:i], providers.LaterAttempt) {
				assert.True(t, set.reached[hit(fmt.Sprint(i), true)], "%s, rule %d on a later attempt: %+v", set.pattern, i, rule)
			}
		}
	}
}

// shadowed reports whether a rule for any attempt is never reached on one occasion, since an earlier rule is for that
// occasion alone.
func shadowed(rule providers.Rule, earlier []providers.Rule, on providers.Occasion) bool {
	return slices.ContainsFunc(earlier, func(e providers.Rule) bool {
		return e.On == on && e.Status == rule.Status && e.Through >= rule.Through && e.Header == "" && e.Field == ""
	})
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

// Rows that adapters have in common.
var (
	refusedRows = []row{
		{"a wrong credential", 401, "", "", rejected, rejected},
		{"no permission", 403, "", "", rejected, rejected},
		{"a proxy that wants a credential", 407, "", "", rejected, rejected},
	}

	passingRows = []row{
		{"a request that took too long to arrive", 408, "", "", retry, retry},
		{"a request sent too early", 425, "", "", retry, retry},
		{"a rate limit that says nothing of execution", 429, "", "", retry, retry},
	}

	// badInput are answers that no provider means to give. None of them proves
	// anything but a success by its status.
	badInput = []row{
		{"an unknown status", 599, "Content-Type: text/html", html, retry, retry},
		{"a redirect", 302, "Location: /elsewhere", "", indeterminate, indeterminate},
		{"a page instead of a success", 200, "Content-Type: text/html", html, indeterminate, indeterminate},
		{"a page that calls itself JSON", 201, "Content-Type: application/json", html, indeterminate, indeterminate},
	}

	// badInputAnyForm are the rows for an API that does not publish the form of its answers.
	badInputAnyForm = []row{
		badInput[0], badInput[1],
		{"a success with a body that is no JSON", 200, "Content-Type: text/html", html, final, final},
	}
)

// refusalRows are the rows for an endpoint whose errors are like body, if nothing more is known of it.
func refusalRows(body string) []row {
	return slices.Concat(refusedRows, passingRows, badInput, []row{
		{"a success", 201, "Content-Type: application/json", `{"id":"1"}`, final, final},
		{"a refusal", 422, "Content-Type: application/json", body, final, indeterminate},
		{"a refusal by something in between", 422, "Content-Type: text/html", html, indeterminate, indeterminate},
		{"a refusal that is cut short", 400, "Content-Type: application/json", body[:len(body)-1], indeterminate, indeterminate},
		{"a failure", 500, "Content-Type: application/json", body, retry, retry},
		{"a gateway's 503", 503, "Content-Type: text/html", html, retry, retry},
	})
}

// ownKeyRows are the rows for an endpoint whose errors are like body, if the key was made for the request. Its
// provider does not publish the meaning of 409 for a key.
func ownKeyRows(body string) []row {
	return []row{
		{"a conflict of the API's own", 409, "Content-Type: application/json", body, final, indeterminate},
		{"a conflict by something in between", 409, "Content-Type: text/html", html, indeterminate, indeterminate},
	}
}

// answered returns rows with other verdicts for one status.
func answered(rows []row, status int, first, later providers.Verdict) []row {
	rows = slices.Clone(rows)
	for i := range rows {
		if rows[i].status == status {
			rows[i].first, rows[i].later = first, later
		}
	}
	return rows
}

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
