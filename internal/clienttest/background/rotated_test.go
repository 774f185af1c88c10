package background_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/providers"
)

// An error does not promise that an operation is sent in the background once Resume has found that its credential is
// missing.
func TestRotatedAndFoundMissingIsNotPromised(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		l := (&line{}).Always(refuses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: once, Authorize: func(*http.Request) error { return nil }})
		credential := with("Authorization", "Bearer x")
		var e *onceward.Error
		require.ErrorAs(t, p.Ask(named(t, "invoice-1"), credential).Err, &e)
		assert.True(t, e.InBackground, "nobody knows better yet")
		pass(2 * time.Hour)
		report, err := p.Resume(t.Context())
		require.NoError(t, err)
		require.Len(t, report.Problems, 1)
		require.ErrorIs(t, report.Problems[0], onceward.ErrCredentialMissing)
		assert.False(t, report.Problems[0].InBackground)

		for _, name := range []string{"invoice-1", "invoice-2"} {
			require.ErrorAs(t, p.Ask(named(t, name), credential).Err, &e)
			assert.False(t, e.InBackground, name)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = p.Wait(ctx, onceward.Ref{ID: "invoice-2"})
		require.ErrorAs(t, err, &e)
		assert.False(t, e.InBackground)
		require.ErrorAs(t, p.Ask(named(t, "invoice-3")).Err, &e)
		assert.True(t, e.InBackground, "it needs no credential")
	})
}

// An operation whose credential is gone, or has another mode, is not claimed until the credential is back.
func TestRotatedCredentialWaitsForItsReturn(t *testing.T) {
	t.Parallel()
	scoped := own()
	scoped.CredentialScoped = true
	shows := own()
	shows.CredentialModes = modes()[0].CredentialModes
	for name, row := range map[string]struct {
		provider providers.Provider
		says     string
	}{
		"keys are scoped": {scoped, "the credential is another one than the operation was begun with"},
		"another mode":    {shows, "the credential is of another mode"},
	} {
		each(t, name, func(t *testing.T, j machine.Store) {
			const operations = 5
			l := (&line{}).Always(refuses())
			token := "Bearer sk_test_1"
			p := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{row.provider}, Authorize: func(r *http.Request) error {
				r.Header.Set("Authorization", token)
				return nil
			}})
			claims := func() (n int64) {
				for _, op := range p.Everything() {
					n += op.Claim
				}
				return n
			}
			for i := range operations {
				require.ErrorIs(t, p.Ask(named(t, fmt.Sprint("order-", i)), toOwn).Err, onceward.ErrPending)
			}
			token = "Bearer sk_live_1"
			l.Always(says(200, paid))
			pass(2 * time.Hour)
			_, err := p.Resume(t.Context())
			require.NoError(t, err)
			before := claims()
			for range 24 {
				pass(time.Hour)
				report, err := p.Resume(t.Context())
				require.NoError(t, err)
				require.Len(t, report.Problems, operations, "it is not hidden")
				for _, problem := range report.Problems {
					require.ErrorIs(t, problem, onceward.ErrPending)
					require.Equal(t, name == "another mode", errors.Is(problem, onceward.ErrKeyReused))
					assert.ErrorContains(t, problem, row.says)
					assert.False(t, problem.InBackground)
				}
			}
			assert.LessOrEqual(t, claims()-before, int64(24*operations), "each is tried once in half an hour at the most")
			said := 0
			for _, op := range p.Everything() {
				if strings.Contains(op.Cause, row.says) {
					said++
				}
			}
			assert.Positive(t, said, "whoever looks is told what it waits for")
			assert.Empty(t, l.Sent())

			token = "Bearer sk_test_1"
			for range 2 { // one finds out
				pass(2 * time.Hour)
				_, err = p.Resume(t.Context())
				require.NoError(t, err)
			}
			for i := range operations {
				assert.Equal(t, onceward.StateCompleted, p.Recorded(onceward.Ref{ID: fmt.Sprint("order-", i)}).State)
			}
		})
	}
}

// Two credentials are not taken for one whose text combines both.
func TestRotatedCredentialIsCheckedForEach(t *testing.T) {
	virtual(t, "two, and one", func(t *testing.T) {
		scoped := own()
		scoped.CredentialScoped = true
		l := (&line{}).Then(refuses())
		credentials := map[string]string{"Authorization": "Bearer a", "X-Api-Key": "b"}
		p := start(t, l, onceward.Config{Backoff: once, Providers: []providers.Provider{scoped}, Authorize: func(r *http.Request) error {
			for name, value := range credentials {
				r.Header.Set(name, value)
			}
			return nil
		}})
		require.ErrorIs(t, p.Ask(named(t, "order-1"), toOwn).Err, onceward.ErrPending)
		credentials = map[string]string{"Authorization": "Bearer aheaderX-Api-Keyb"}
		pass(2 * time.Hour)
		report, err := p.Resume(t.Context())
		require.NoError(t, err)
		require.Len(t, report.Problems, 1)
		assert.ErrorContains(t, report.Problems[0], "credential")
		assert.Empty(t, l.Sent())
	})
}

// An error does not promise that an operation is sent in the background if its credential is gone.
func TestRotatedIsNotPromised(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		scoped := own()
		scoped.CredentialScoped = true
		l := (&line{}).Then(refuses())
		token := "Bearer old"
		p := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{scoped}, Authorize: func(r *http.Request) error {
			r.Header.Set("Authorization", token)
			return nil
		}})
		require.ErrorIs(t, p.Ask(named(t, "order-1"), to("POST", ownURL)).Err, onceward.ErrPending)
		token = "Bearer new"
		pass(2 * time.Hour)
		report, err := p.Resume(t.Context())
		require.NoError(t, err)
		require.Len(t, report.Problems, 1)
		assert.False(t, report.Problems[0].InBackground)
		assert.Equal(t, onceward.StatePending, report.Problems[0].Operation.State)
		assert.NoError(t, p.Ask(named(t, "order-1"), to("POST", ownURL)).Err, "its caller can have it sent")
		assert.Len(t, l.Sent(), 1)
	})
}
