package onceward_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/providers/providertest"
)

// What an answer's header asks for counts, also where its body breaks off.
func TestLookKeepsARetryAfterOfACutAnswer(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		l.box.Script(providertest.DropBefore())
		require.ErrorIs(t, l.pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		var looks []time.Time
		l.fakes(func(r *http.Request) *http.Response {
			if r.Method != http.MethodGet {
				return nil
			}
			looks = append(looks, time.Now())
			resp := answers(http.StatusTooManyRequests, "later")
			resp.Header.Set("Retry-After", "1800")
			resp.Body = io.NopCloser(brokenBody{})
			return resp
		})
		l.runs(3 * time.Hour)
		require.Greater(t, len(looks), 2)
		for i, at := range looks[1:] {
			assert.GreaterOrEqual(t, at.Sub(looks[i]), 30*time.Minute)
		}
	})
}
