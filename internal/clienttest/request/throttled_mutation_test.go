package request_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/providers"
)

// A mutation without a key may have created its object although an error says that it was throttled. It is sent again
// only if nothing else is in the answer.
func TestThrottledMutationWithoutAKey(t *testing.T) {
	const throttled = `{"message":"Throttled","extensions":{"code":"THROTTLED"}}`
	for name, tc := range map[string]struct {
		answer string
		again  bool
	}{
		"throttled":                      {`{"errors":[` + throttled + `],"extensions":{"cost":{"actualQueryCost":null}}}`, true},
		"beside the object":              {`{"data":{"orderCreate":{"order":{"id":"gid://shopify/Order/1"},"userErrors":[]}},"errors":[` + throttled + `]}`, false},
		"beside a list of objects":       {`{"data":{"orderCreate":{"orders":[{"id":"gid://shopify/Order/1"}]}},"errors":[` + throttled + `]}`, false},
		"beside an object without an id": {`{"errors":[` + throttled + `],"data":{"orderCreate":{"order":{"customer":{"name":"A"}}}}}`, false},
		"beside a payload that is lost":  {`{"data":{"orderCreate":null},"errors":[` + throttled + `]}`, false},
		"beside another error":           {`{"errors":[` + throttled + `,{"message":"Internal error","extensions":{"code":"INTERNAL_SERVER_ERROR"}}]}`, false},
		"behind an error without a code": {`{"errors":[{"message":"timed out"},` + throttled + `]}`, false},
	} {
		each(t, name, func(t *testing.T, j machine.Store) {
			l := (&line{}).Then(says(200, tc.answer)).Always(says(200, `{"data":{"orderCreate":{"order":{"id":"gid://shopify/Order/2"}}}}`))
			p := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{providers.Shopify()}})
			out := p.Ask(named(t, "order-7"),
				to(http.MethodPost, "https://example.myshopify.com/admin/api/2026-04/graphql.json"),
				body(`{"query":"mutation { orderCreate(order: {}) { order { id } userErrors { message } } }"}`), jsonType)
			if tc.again {
				require.NoError(t, out.Err)
				assert.Len(t, l.Sent(), 2)
				return
			}
			require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
			assert.Len(t, l.Sent(), 1)
			assert.Equal(t, onceward.StateUnknown, p.Recorded(onceward.Ref{ID: "order-7"}).State)
		})
	}
}
