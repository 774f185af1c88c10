package request_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/providers"
)

// foreign is a context that package context does not know: whatever is derived from it
// keeps a goroutine until it is cancelled. It never ends, as a program's own does not.
type foreign struct {
	context.Context
	done chan struct{}
}

func (c foreign) Done() <-chan struct{} { return c.done }

// No goroutine is left behind under a context that never ends. A bubble with goroutines left fails its test.
func TestContextThatNeverEnds(t *testing.T) {
	ofCredential := own()
	ofCredential.CredentialScoped = true
	for name, f := range map[string]func(ctx context.Context, t *testing.T, l *line, p *process){
		"a call": func(ctx context.Context, t *testing.T, _ *line, p *process) {
			require.NoError(t, p.Ask(ctx, to("POST", ownURL)).Err)
		},
		"a call that is tried again": func(ctx context.Context, t *testing.T, l *line, p *process) {
			l.Then(refuses(), refuses())
			require.NoError(t, p.Ask(ctx, to("POST", ownURL)).Err)
		},
		"a call that is parked": func(ctx context.Context, t *testing.T, l *line, p *process) {
			l.Always(refuses())
			require.ErrorIs(t, p.Ask(ctx, to("POST", ownURL)).Err, onceward.ErrPending)
		},
		"a call under a credential": func(ctx context.Context, t *testing.T, _ *line, p *process) {
			require.NoError(t, p.Ask(ctx, to("POST", ownURL), with("Authorization", "Bearer a")).Err)
		},
		"a call that follows another": func(ctx context.Context, t *testing.T, l *line, p *process) {
			l.Then(takes(time.Second, says(200, paid)))
			first := make(chan outcome)
			go func() { first <- p.Ask(ctx, to("POST", ownURL)) }()
			synctest.Wait()
			require.NoError(t, p.Ask(ctx, to("POST", ownURL)).Err)
			require.NoError(t, (<-first).Err)
			assert.Len(t, l.Sent(), 1)
		},
		"a call that is not begun": func(ctx context.Context, t *testing.T, _ *line, p *process) {
			ended, cancel := context.WithCancel(ctx)
			cancel()
			require.ErrorIs(t, p.Ask(ended, to("POST", ownURL)).Err, onceward.ErrNotSent)
		},
		"Wait": func(ctx context.Context, t *testing.T, l *line, p *process) {
			l.Then(takes(time.Second, says(200, paid)))
			first := make(chan outcome)
			go func() { first <- p.Ask(ctx, to("POST", ownURL)) }()
			synctest.Wait()
			_, err := p.Wait(ctx, onceward.Ref{ID: invoice})
			require.NoError(t, err)
			require.NoError(t, (<-first).Err)
		},
		"Resume": func(ctx context.Context, t *testing.T, l *line, p *process) {
			l.Then(loses())
			require.ErrorIs(t, p.Ask(ctx, to("POST", ownURL)).Err, onceward.ErrPending)
			pass(time.Hour)
			report, err := p.Resume(ctx)
			require.NoError(t, err)
			assert.Equal(t, 1, report.Completed)
		},
		"Run": func(ctx context.Context, t *testing.T, l *line, p *process) {
			l.Then(loses())
			require.ErrorIs(t, p.Ask(ctx, to("POST", ownURL)).Err, onceward.ErrPending)
			ended := make(chan error)
			go func() { ended <- p.Run(ctx) }()
			pass(time.Hour)
			require.NoError(t, p.Shutdown(ctx))
			require.NoError(t, <-ended)
			assert.Len(t, l.Sent(), 2)
		},
	} {
		virtual(t, name, func(t *testing.T) {
			ctx := foreign{named(t, invoice), make(chan struct{})}
			l := &line{}
			cfg := onceward.Config{Providers: []providers.Provider{own()}}
			switch name {
			case "a call under a credential":
				cfg.Providers = []providers.Provider{ofCredential}
			case "Resume", "Run":
				cfg.Backoff = once
			}
			f(ctx, t, l, start(t, l, cfg))
		})
	}
}
