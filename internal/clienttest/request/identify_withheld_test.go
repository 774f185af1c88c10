package request_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/sample"
	"github.com/onceward/onceward/providers"
)

// A withheld value, such as a ticket, makes a different request. A renewed credential does not.
func TestWithheldValuesDistinguishOperations(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, first, then string
		other             bool
	}{
		{"the same ticket", "ticket=1&page=1", "page=1&ticket=1", false},
		{"another ticket", "ticket=1", "ticket=2", true},
		{"no ticket any more", "ticket=1", "", true},
		{"a ticket that wasn't there", "", "ticket=1", true},
		{"another ticket beside a key", "api_key=1&ticket=1", "api_key=1&ticket=2", true},
		{"another amount in a parameter that holds a signature", "amount=1;sig=1", "amount=2;sig=1", true},
		{"a key that was renewed", "key=1", "key=2", false},
		{"a token that was renewed", "access_token=1", "access_token=2", false},
		{"a signature that is made anew", "X-Amz-Signature=1&X-Amz-Credential=1&X-Amz-Security-Token=1", "X-Amz-Signature=2&X-Amz-Credential=2&X-Amz-Security-Token=2", false},
		{"a password that was changed", "user=a&pass=1", "user=a&pass=2", false},
		{"a key that was dropped", "api_key=1", "", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			for kind, open := range journals {
				l := &line{}
				p := start(t, l, onceward.Config{Journal: open(t), Providers: []providers.Provider{own()}})
				first := to(http.MethodPost, ownURL+"?"+row.first)
				require.NoError(t, p.Ask(named(t, "order-1"), first).Err, kind)
				again := p.Ask(named(t, "order-1"), first)
				require.NoError(t, again.Err, kind)
				assert.True(t, again.Op.Replayed, kind)

				out := p.Ask(named(t, "order-1"), to(http.MethodPost, ownURL+"?"+row.then))
				if row.other {
					var e *onceward.Error
					require.ErrorAs(t, out.Err, &e, kind)
					require.ErrorIs(t, e, onceward.ErrKeyReused, kind)
					assert.Equal(t, []string{"URL"}, e.Differs, kind)
					assert.NoError(t, e.Err, kind)
				} else {
					require.NoError(t, out.Err, kind)
					assert.True(t, out.Op.Replayed, kind)
				}
				assert.Len(t, l.Sent(), 1, kind)
			}
		})
	}
}

// A request stays the same if a session, key or signature header is renewed.
func TestARenewedCredentialIsTheSameRequest(t *testing.T) {
	l := &line{}
	p := start(t, l, onceward.Config{Providers: []providers.Provider{own()}})
	for i := range 3 {
		options := []option{to(http.MethodPost, ownURL)}
		for _, name := range append([]string{"X-Ticket", "X-Sign", "X-Mac"}, secretHeaders...) {
			options = append(options, with(name, fmt.Sprint(i)))
		}
		out := p.Ask(named(t, "order-1"), options...)
		require.NoError(t, out.Err)
		assert.Equal(t, i > 0, out.Op.Replayed)
	}
	assert.Len(t, l.Sent(), 1)
}

// Two concurrent callers of one name with different withheld values are told apart before the journal is asked.
func TestWithheldValuesDistinguishConcurrentCallers(t *testing.T) {
	synctestTwo(t, "ticket=1", "ticket=1", false)
	synctestTwo(t, "ticket=1", "ticket=2", true)
}

func synctestTwo(t *testing.T, one, another string, other bool) {
	virtual(t, one+" and "+another, func(t *testing.T) {
		reached := make(chan struct{})
		goOn := make(chan struct{})
		l := (&line{}).Then(doing(func() { close(reached); <-goOn }, says(200, paid)))
		p := start(t, l, onceward.Config{Providers: []providers.Provider{own()}})
		first, second := make(chan outcome, 1), make(chan outcome, 1)
		go func() { first <- p.Ask(named(t, "order-1"), to(http.MethodPost, ownURL+"?"+one)) }()
		<-reached
		go func() { second <- p.Ask(named(t, "order-1"), to(http.MethodPost, ownURL+"?"+another)) }()
		pass(0)
		close(goOn)
		require.NoError(t, (<-first).Err)
		out := <-second
		if other {
			assert.ErrorIs(t, out.Err, onceward.ErrKeyReused)
		} else {
			assert.NoError(t, out.Err)
		}
		assert.Len(t, l.Sent(), 1)
	})
}

// Work on untrusted input is proportional to its size. Quadratic work would not end within a test.
func TestUntrustedInputTakesTimeInProportion(t *testing.T) {
	t.Parallel()
	size := sample.Size(128<<10, 2<<20)
	many := func(format string) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for name, options := range map[string][]option{
		"withheld parameters":           {to(http.MethodPost, ownURL), func(r *http.Request) { r.URL.RawQuery = many("&token%d") }},
		"lists in a query":              {to(http.MethodPost, ownURL), func(r *http.Request) { r.URL.RawQuery = many("&%d[]") }},
		"lists in a form":               {to(http.MethodPost, ownURL), body(many("%d[]&"))},
		"a form like a token request's": {to(http.MethodPost, ownURL), body(many("grant_type;%d%%&"))},
	} {
		t.Run(name, func(t *testing.T) {
			l := &line{}
			p := start(t, l, onceward.Config{Providers: []providers.Provider{own()}})
			require.NoError(t, p.Ask(named(t, "order-1"), options...).Err)
			assert.Len(t, l.Sent(), 1)
		})
	}
}

// A cancelled caller's request is not read to its end.
func TestRequestOfACancelledCaller(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(named(t, "order-1"))
		cancel(gone)
		l := &line{}
		p := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{own()}})
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, ownURL, strings.NewReader(strings.Repeat("a&", 1<<12)))
		require.NoError(t, err)
		req.Header.Set("Content-Type", form)
		_, err = p.Transport().RoundTrip(req)
		require.ErrorIs(t, err, gone)
		require.ErrorIs(t, err, onceward.ErrNotSent)
		assert.Empty(t, l.Sent())
		assert.Empty(t, p.Everything())
	})
}
