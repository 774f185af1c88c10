package wire_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/internal/wire"
)

func TestLookingForAnAddedQueryIsLinear(t *testing.T) {
	soak.InProportion(t, 100_000, func(n int) {
		var query strings.Builder
		for i := range n {
			fmt.Fprintf(&query, "&a%d", i)
		}
		u := &url.URL{RawQuery: query.String()}
		wire.BeyondQuery(&http.Request{URL: u}, u)
	}, "parameters")
}
