package request_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
)

// restored is a journal that was copied, or restored from a backup.
type restored struct{ machine.Store }

func (restored) Join(context.Context) (machine.Session, error) { return nil, journal.ErrRestored }

func TestARestoredJournalSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		p := start(t, l, onceward.Config{Journal: restored{memory.New()}})
		for range 2 {
			require.ErrorIs(t, p.Ask(named(t, "invoice-1/charge")).Err, onceward.ErrJournalRestored)
		}
		_, err := p.Resume(t.Context())
		require.ErrorIs(t, err, journal.ErrRestored)
		assert.Empty(t, l.Sent())
	})
}

// A lost session is replaced. Other processes may have taken over its operations.
func TestLostSessionIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.New()
		p := start(t, &line{}, onceward.Config{Journal: j})
		require.NoError(t, p.Ask(named(t, "invoice-1/charge")).Err)
		j.Kill(p.Journal.Sessions()[0].ID())
		require.NoError(t, p.Ask(named(t, "invoice-2/charge")).Err)
		require.Len(t, p.Journal.Sessions(), 2)
	})
}

// unjoined is a journal that no process can join for a while.
type unjoined struct {
	*memory.Journal
	fails bool
}

func (j *unjoined) Join(ctx context.Context) (machine.Session, error) {
	if j.fails {
		return nil, errDiskFull
	}
	return j.Journal.Join(ctx)
}

// A lost session is logged once, however many calls come before the next session.
func TestLostSessionIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		j := &unjoined{Journal: memory.New()}
		p := start(t, &line{}, onceward.Config{Journal: j, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		require.NoError(t, p.Ask(named(t, "invoice-1")).Err)
		for lost := range 2 {
			j.Kill(p.Journal.Sessions()[lost].ID())
			j.fails = true
			for range 3 {
				require.ErrorIs(t, p.Ask(named(t, "invoice-2")).Err, onceward.ErrJournal)
			}
			j.fails = false
			require.NoError(t, p.Ask(named(t, fmt.Sprint("invoice-3/", lost))).Err)
			assert.Equal(t, lost+1, strings.Count(logged.String(), "the journal's session is lost"))
		}
	})
}

// slowly is a journal that is slow to join.
type slowly struct {
	*memory.Journal
	waits func()
	ended atomic.Int32
}

func (j *slowly) Join(ctx context.Context) (machine.Session, error) {
	j.waits()
	s, err := j.Journal.Join(ctx)
	return &ending{s, j}, err
}

type ending struct {
	machine.Session
	of *slowly
}

func (s *ending) End(ctx context.Context) error {
	s.of.ended.Add(1)
	return s.Session.End(ctx)
}

// A caller that waits while another call joins a session returns when its own context ends.
func TestWaitForASessionHonorsTheContext(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		j := &slowly{Journal: memory.New(), waits: sync.OnceFunc(func() { pass(time.Minute) })}
		p := start(t, &line{}, onceward.Config{Journal: j})
		first := make(chan error, 1)
		go func() { first <- p.Ask(named(t, "invoice-1")).Err }()
		pass(time.Second)
		ctx, cancel := context.WithTimeout(named(t, "invoice-2"), 10*time.Second)
		defer cancel()
		require.ErrorIs(t, p.Ask(ctx).Err, context.DeadlineExceeded)
		assert.Empty(t, first, "it waits")
		require.NoError(t, <-first)
	})
}

// Two callers that wait for a session share it. A second one would never be ended.
func TestTwoCallersShareASession(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		j := &slowly{Journal: memory.New(), waits: func() { pass(time.Minute) }}
		p := start(t, &line{}, onceward.Config{Journal: j})
		asked := make(chan error, 2)
		for i := range cap(asked) {
			go func() { asked <- p.Ask(named(t, fmt.Sprint("invoice-", i))).Err }()
		}
		for range cap(asked) {
			require.NoError(t, <-asked)
		}
		assert.Len(t, p.Journal.Sessions(), 1)
	})
}

// A session that is joined after the client was shut down is ended at once.
func TestShutdownBesideAJoin(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := &line{}
		j := &slowly{Journal: memory.New(), waits: func() { pass(time.Minute) }}
		p := start(t, l, onceward.Config{Journal: j})
		asked := make(chan error, 1)
		go func() { asked <- p.Ask(named(t, "invoice-1")).Err }()
		pass(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = p.Shutdown(ctx)
		require.ErrorIs(t, <-asked, onceward.ErrShutdown)
		assert.EqualValues(t, 1, j.ended.Load())
		assert.Empty(t, l.Sent())
	})
}

// A session that has noticed its loss sends nothing more.
func TestLostSessionSendsNothingMore(t *testing.T) {
	virtual(t, "before another process takes over its operation", func(t *testing.T) {
		l, j := &line{}, memory.New()
		p := start(t, l, onceward.Config{Journal: j})
		l.Then(doing(func() { j.Kill(p.Journal.Sessions()[0].ID()) }, loses()))
		out := p.Ask(named(t, "a"))
		require.ErrorIs(t, out.Err, onceward.ErrPending)
		assert.Len(t, l.Sent(), 1)
	})
	virtual(t, "before its first attempt, and others need not wait", func(t *testing.T) {
		l, j := &line{}, memory.New()
		var p *process
		p = start(t, l, onceward.Config{Journal: j, Trace: &onceward.Trace{
			Started: func(ctx context.Context, _ onceward.Operation, _ onceward.Why) context.Context {
				j.Kill(p.Journal.Sessions()[0].ID())
				return ctx
			},
		}})
		require.ErrorIs(t, p.Ask(named(t, "a")).Err, onceward.ErrPending)
		assert.Empty(t, l.Sent())
		op := p.Recorded(onceward.Ref{ID: "a"})
		assert.Equal(t, onceward.StatePending, op.State)
		assert.Equal(t, op.DueAt, op.WakeAt)
		require.NoError(t, start(t, l, onceward.Config{Journal: j}).Ask(named(t, "a")).Err)
	})
}

// A call that is still running after Shutdown has returned joins no new session, which would never be ended.
func TestNoSessionAfterShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.New()
		p := start(t, &line{}, onceward.Config{Journal: j})
		require.NoError(t, p.Ask(named(t, "invoice-1/charge")).Err)
		read, asked := make(chan struct{}), make(chan error)
		req, err := http.NewRequestWithContext(named(t, "invoice-2/charge"), http.MethodPost, "https://api.stripe.com/v1/charges", waiting{read})
		require.NoError(t, err)
		go func() {
			resp, err := p.HTTPClient().Do(req)
			if err == nil {
				resp.Body.Close()
			}
			asked <- err
		}()
		synctest.Wait()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, p.Shutdown(ended), context.Canceled)
		close(read)
		require.ErrorIs(t, <-asked, onceward.ErrShutdown)
		assert.Len(t, p.Journal.Sessions(), 1)
		assert.Len(t, p.Everything(), 1, "nothing is recorded that nobody would take over")
	})
}

// waiting is a body that ends once until is closed.
type waiting struct{ until chan struct{} }

func (w waiting) Read([]byte) (int, error) {
	<-w.until
	return 0, io.EOF
}
