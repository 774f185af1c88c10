package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/server"
)

// everyProblem is in the order of the source, which a test counts.
var everyProblem = []server.Problem{
	foreignCaller, foreignHost, fromAPage, foreignMethod, foreignScope, tooLarge, broken, malformed, ambiguous, nameMissing, otherGrant, unreachable,
	pending, outcomeUnknown, withdrawn, keyReused, answerGone, redirected, notSent,
}

// The golden file has each refusal as each flavour words it. An SDK takes none for an answer, a missing
// login, a decline or a missing object. Each tells SDKs not to repeat the call by themselves.
func TestProblemsAreGolden(t *testing.T) {
	source, err := os.ReadFile("problems.go")
	require.NoError(t, err)
	require.Len(t, everyProblem, strings.Count(string(source), "server.Problem{Name"))
	var got bytes.Buffer
	for _, p := range everyProblem {
		for _, table := range []string{"stripe", "ietf", "square", "adyen", "paypal"} {
			w := refused(speeches[table].flavour, p)
			fmt.Fprintf(&got, "%s %d %s\n", table, w.Code, w.Body)
		}
	}
	golden := filepath.Join("testdata", "problems.txt")
	if os.Getenv("ONCEWARD_GOLDEN") == "write" {
		require.NoError(t, os.WriteFile(golden, got.Bytes(), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.Equal(t, string(want), got.String(), "ONCEWARD_GOLDEN=write writes it anew")
}

func refused(f server.Flavour, p server.Problem) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	(&proxy{upstream: Upstream{Flavour: f}}).fail(w, &refusal{problem: p})
	return w
}

func TestLawsOfProblems(t *testing.T) {
	for _, p := range everyProblem {
		for _, speaks := range speeches {
			w := refused(speaks.flavour, p)
			assert.GreaterOrEqual(t, w.Code, 400, p.Name)
			for _, taken := range []int{http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusNotFound} {
				assert.NotEqual(t, taken, w.Code, p.Name)
			}
			assert.NotContains(t, w.Body.String(), "card_error")
			assert.Equal(t, "false", w.Header().Get("Stripe-Should-Retry"))
			assert.Equal(t, "false", w.Header().Get("X-Should-Retry"))
			assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
			assert.NotEmpty(t, p.Detail)
		}
		mayHaveRun := strings.Contains("pending outcome-unknown withdrawn key-reused answer-gone redirected not-sent", p.Name)
		forbids := strings.Contains(p.Detail, "another") || strings.Contains(p.Detail, "the same at each try")
		assert.True(t, !mayHaveRun || forbids, "%s: a text that does not forbid another name", p.Name)
	}
}

// Each error of a client has its problem. An error that no row names leaves the operation open.
func TestEachErrorHasItsProblem(t *testing.T) {
	for want, kinds := range map[string][]error{
		"pending":         {onceward.ErrPending, onceward.ErrInFlight, onceward.ErrCredentialMissing, onceward.ErrMoved, onceward.ErrOpenTransaction},
		"outcome-unknown": {onceward.ErrOutcomeUnknown},
		"withdrawn":       {onceward.ErrWithdrawn},
		"key-reused":      {onceward.ErrKeyReused},
		"answer-gone":     {onceward.ErrAnswerGone},
		"redirected":      {onceward.ErrRedirected},
		"not-sent":        {onceward.ErrNotSent, onceward.ErrJournal, onceward.ErrJournalRestored, onceward.ErrShutdown},
		"name-missing":    {onceward.ErrUnprotected, onceward.ErrNameNeeded},
		"malformed":       {onceward.ErrInvalidRequest},
	} {
		for _, kind := range kinds {
			p, _ := problemOf(fmt.Errorf("wrapped: %w", &onceward.Error{Kind: kind}))
			assert.Equal(t, want, p.Name, "%v", kind)
		}
	}
	p, _ := problemOf(errors.New("an error of a transport"))
	assert.Equal(t, "pending", p.Name)
}
