package onceward_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// What is journaled of a request besides its body is bounded, wherever in it that stands.
func TestHeadThatIsTooLarge(t *testing.T) {
	const most = 4 << 20
	usual := len("/v1/charges") + len("Content-Type") + len(form)
	filled := func(n int) string { return strings.Repeat("x", n) }
	for _, row := range []struct {
		name   string
		change option
		fits   bool
	}{
		{"a query of the greatest length", func(r *http.Request) { r.URL.RawQuery = filled(most - usual) }, true},
		{"a query that is longer", func(r *http.Request) { r.URL.RawQuery = filled(most - usual + 1) }, false},
		{"a path and a query", func(r *http.Request) {
			r.URL.Path += "/" + filled(most/2)
			r.URL.RawQuery = filled(most / 2)
		}, false},
		{"a path and a header", func(r *http.Request) {
			r.URL.Path += "/" + filled(most/2)
			r.Header.Set("X-Long", filled(most/2))
		}, false},
		{"an opaque URL", func(r *http.Request) { r.URL.Opaque = "//api.stripe.com/" + filled(most) }, false},
		{"many headers of one name", func(r *http.Request) { r.Header[filled(1000)] = make([]string, most/1000+1) }, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			l := &line{}
			p := start(t, l, onceward.Config{})
			err := p.Ask(named(t, invoice), row.change).Err
			if row.fits {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, onceward.ErrInvalidRequest)
			assert.ErrorContains(t, err, "URL and headers")
			assert.Empty(t, l.Sent())
			assert.Empty(t, p.Everything())
		})
	}
}

// What is recorded of a request says whose it is, where its key stands, and its Host only where that is another one's.
func TestWhatIsRecordedOfARequest(t *testing.T) {
	l := &line{}
	p := start(t, l, onceward.Config{Providers: []providers.Provider{own(func(e *providers.Endpoint) { e.Key.Name = "x-order-key" })}})
	ask := func(name, url string, options ...option) journal.Operation {
		out := p.Ask(named(t, name), append([]option{to(http.MethodPost, url)}, options...)...)
		require.NoError(t, out.Err)
		return p.Recorded(out.Op.Ref)
	}
	usual := ask("usual", ownURL)
	assert.Empty(t, usual.Request.Host)
	assert.NotEmpty(t, usual.Provider)
	assert.Contains(t, usual.Form, "X-Order-Key")
	assert.Equal(t, "a.example", ask("another host", "https://elsewhere.example/", func(r *http.Request) { r.Host = "a.example" }).Request.Host)
	assert.Empty(t, ask("nobody's", "https://elsewhere.example/").Provider)
}
