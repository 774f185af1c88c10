package request_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// A request's URL and headers are bounded together.
func TestHeadThatIsTooLarge(t *testing.T) {
	t.Parallel()
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

// The record of a request has its provider, the place of its key, and its Host if that differs from the URL's.
func TestRecordedFieldsOfARequest(t *testing.T) {
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

// The request's Body is recorded and sent, whatever GetBody would give. A wrong length is refused, and a body that
// blocks is not waited for beyond the call's time.
func TestBodyWithAnUnusualReader(t *testing.T) {
	gives := func(length int64, getBody func() (io.ReadCloser, error)) option {
		return func(r *http.Request) {
			r.Body, r.GetBody, r.ContentLength = io.NopCloser(strings.NewReader(chargeForm)), getBody, length
		}
	}
	whole := int64(len(chargeForm))
	for name, row := range map[string]struct {
		given option
		kind  error
	}{
		"GetBody gives another": {gives(whole, func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("amount=9")), nil }), nil},
		"GetBody fails":         {gives(whole, func() (io.ReadCloser, error) { return nil, errors.New("it is gone") }), nil},
		"no length":             {gives(-1, nil), nil},
		"no length, by a 0":     {gives(0, nil), nil},
		"too long a one":        {gives(whole+1, nil), onceward.ErrInvalidRequest},
		"too short a one":       {gives(whole-1, nil), onceward.ErrInvalidRequest},
		"it is a pipe that is never written to": {func(r *http.Request) {
			r.Body, _ = io.Pipe()
			r.GetBody, r.ContentLength = nil, whole
		}, context.DeadlineExceeded},
	} {
		virtual(t, name, func(t *testing.T) {
			l := (&line{}).Then(loses())
			p := start(t, l, onceward.Config{})
			ctx, cancel := context.WithTimeout(named(t, invoice), time.Minute)
			defer cancel()
			out := p.Ask(ctx, row.given)
			if row.kind != nil {
				require.ErrorIs(t, out.Err, row.kind)
				require.ErrorIs(t, out.Err, onceward.ErrInvalidRequest)
				assert.Empty(t, l.Sent())
				assert.Empty(t, p.Everything())
				return
			}
			require.NoError(t, out.Err)
			require.Len(t, l.Sent(), 2)
			for _, s := range l.Sent() {
				assert.Equal(t, chargeForm, s.Body)
			}
			assert.True(t, p.Ask(named(t, invoice)).Op.Replayed, "it is the same request")
		})
	}
}
