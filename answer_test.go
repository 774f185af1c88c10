package onceward_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
)

func TestAReplayCarriesNoSetCookie(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Then(says(200, paid, "Set-Cookie", "a=b", "X-Request-Id", "req_1"))
		p := start(t, l, onceward.Config{})
		first, second := p.Ask(named(t, "invoice-1/charge")), p.Ask(named(t, "invoice-1/charge"))
		assert.Equal(t, "a=b", first.Header.Get("Set-Cookie"))
		assert.Empty(t, second.Header.Get("Set-Cookie"))
		assert.Equal(t, "req_1", second.Header.Get("X-Request-Id"))
	})
}

// An answer that is too large to be kept is delivered like any other: once its body is closed.
func TestALargeAnswerIsDelivered(t *testing.T) {
	for _, limit := range []int64{10, 1000} {
		virtual(t, fmt.Sprint(limit), func(t *testing.T) {
			long := strings.Repeat("x", 100)
			p := start(t, (&line{}).Then(says(200, long)), onceward.Config{MaxResponseBody: limit, OnSettled: (&settler{}).settle})
			req, err := http.NewRequestWithContext(named(t, invoice), http.MethodPost, chargeURL, nil)
			require.NoError(t, err)
			resp, err := p.HTTP.Do(req)
			require.NoError(t, err)
			assert.False(t, p.Recorded(onceward.Ref{ID: invoice}).Delivered)
			text, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			assert.Equal(t, long, string(text))
			require.NoError(t, resp.Body.Close())
			require.NoError(t, p.Shutdown(t.Context())) // the note of a delivery rides on another commit
			assert.True(t, p.Recorded(onceward.Ref{ID: invoice}).Delivered)
		})
	}
}
