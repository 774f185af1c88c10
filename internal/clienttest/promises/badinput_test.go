//go:build unix

package promises_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

func TestANilJournalIsRefused(t *testing.T) {
	_, err := onceward.New(onceward.Config{Providers: []providers.Provider{providers.Stripe()}})
	require.ErrorContains(t, err, "Config.Journal: the journal is missing")
	assert.ErrorContains(t, err, "sqlite.Open", "it says what to do")
}

func TestAPathThatHoldsNoJournalIsRefused(t *testing.T) {
	for name, row := range map[string]struct {
		make func(t *testing.T, path string)
		is   error
	}{
		"a directory": {func(t *testing.T, path string) { require.NoError(t, os.Mkdir(path, 0o700)) }, sqlite.ErrNotJournal},
		"not a database": {func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("x"), 8192), 0o600))
		}, sqlite.ErrNotJournal},
		"too short for one":  {func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, []byte("invoices"), 0o600)) }, sqlite.ErrNotJournal},
		"a named pipe":       {func(t *testing.T, path string) { require.NoError(t, syscall.Mkfifo(path, 0o600)) }, sqlite.ErrNotJournal},
		"a missing folder's": {func(t *testing.T, path string) { require.NoError(t, os.Remove(filepath.Dir(path))) }, os.ErrNotExist},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "folder", "journal.db")
			require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
			row.make(t, path)
			_, err := sqlite.Open(path, sqlite.Options{Volatile: true})
			require.ErrorIs(t, err, row.is)
			assert.ErrorContains(t, err, path)
		})
	}
}

// unwritable makes the files in dir read-only.
func unwritable(t *testing.T, dir string) {
	t.Helper()
	if os.Getuid() != 0 {
		require.NoError(t, os.Chmod(dir, 0o500))
		t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
		return
	}
	// Permissions do not apply to root, but a read-only folder view does.
	if out, err := exec.CommandContext(t.Context(), "mount", "--bind", dir, dir).CombinedOutput(); err != nil {
		t.Skipf("nothing is unwritable for root where it can't mount: %s", out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", dir).Run() })
	require.NoError(t, exec.CommandContext(t.Context(), "mount", "-o", "remount,bind,ro", dir).Run())
}

func TestAPathThatCanNotBeWrittenIsRefused(t *testing.T) {
	t.Run("a new journal", func(t *testing.T) {
		dir := t.TempDir()
		unwritable(t, dir)
		_, err := sqlite.Open(filepath.Join(dir, "journal.db"), sqlite.Options{Volatile: true})
		require.Error(t, err)
		assert.True(t, errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EROFS), "%v", err)
		assert.ErrorContains(t, err, "can be written")
	})
	t.Run("one that was written before", func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, "journal.db")
		j, err := sqlite.Open(path, sqlite.Options{Volatile: true})
		require.NoError(t, err)
		require.NoError(t, j.Close())
		unwritable(t, dir)
		_, err = sqlite.Open(path, sqlite.Options{Volatile: true})
		require.Error(t, err)
		assert.ErrorContains(t, err, "written")
	})
}

// limitVariable marks a process that onFullDisks has started as the one whose files must not grow.
const limitVariable = "ONCEWARD_TEST_FULL_DISK"

// onFullDisks runs a test in a directory whose disk is full after fill and until free. A limit on file sizes
// does that without privileges. A small file system does it too, on a machine that can mount one.
func onFullDisks(t *testing.T, f func(t *testing.T, dir string, fill, free func())) {
	t.Helper()
	test := t.Name()
	t.Run("by a limit on the size of files", func(t *testing.T) {
		if os.Getenv(limitVariable) == "" {
			// The limit applies to the whole process, so the test runs in a child process.
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+test+"$/^by_a_limit", "-test.timeout=60s")
			child.Env = append(os.Environ(), limitVariable+"=1")
			out, err := child.CombinedOutput()
			require.NoError(t, err, "%s", out)
			return
		}
		signal.Ignore(syscall.SIGXFSZ)
		var before syscall.Rlimit
		require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
		f(t, t.TempDir(), func() {
			limit := before
			limit.Cur = 1 // and so no file grows any more
			require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
		}, func() {
			require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before))
		})
	})
	t.Run("by a file system of two megabytes", func(t *testing.T) {
		dir := t.TempDir()
		if out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", dir).CombinedOutput(); err != nil {
			t.Skipf("no file system can be mounted here: %s", out)
		}
		t.Cleanup(func() { _ = exec.Command("umount", dir).Run() })
		filler := filepath.Join(dir, "filler")
		f(t, dir, func() {
			f, err := os.Create(filler)
			require.NoError(t, err)
			defer f.Close()
			for err == nil {
				_, err = f.Write(make([]byte, 4096))
			}
			require.ErrorIs(t, err, syscall.ENOSPC)
		}, func() {
			require.NoError(t, os.Remove(filler))
		})
	})
}

func TestAFullDisk(t *testing.T) { onFullDisks(t, fullDisk) }

// fullDisk asks for operations on a journal in dir while its disk is full. fill fills the disk, and free frees it.
func fullDisk(t *testing.T, dir string, fill, free func()) {
	t.Helper()
	path := filepath.Join(dir, "journal.db")
	var duringTheRequest func()
	srv := serving(t, providers.Stripe(), func(providertest.Request) {
		if duringTheRequest != nil {
			duringTheRequest()
		}
	})
	p := calling(t, srv, onceward.Config{Journal: openSQLite(t, path)})
	ask := func(name string) outcome { return p.Ask(named(t, name), charging(srv), body("amount=100&name="+name)) }
	require.NoError(t, ask("before").Err)

	fill()
	for range 3 {
		out := ask("while beginning")
		require.ErrorIs(t, out.Err, onceward.ErrJournal)
		assert.ErrorContains(t, out.Err, "disk")
	}
	replayed := ask("before")
	require.NoError(t, replayed.Err, "what was recorded is still there")
	assert.True(t, replayed.Op.Replayed)
	assert.Equal(t, 1, srv.Requests(), "nothing is sent without an intent")
	free()
	require.NoError(t, ask("while beginning").Err, "it goes on by itself")
	require.Equal(t, 2, srv.Requests())

	duringTheRequest = fill
	out := ask("while completing")
	duringTheRequest = nil
	require.NoError(t, out.Err)
	assert.Equal(t, paid, out.Body, "the caller has its answer")
	again := ask("while completing")
	require.NoError(t, again.Err)
	assert.Equal(t, paid, again.Body)
	require.Equal(t, journal.StateInFlight, p.Recorded(onceward.Ref{ID: "while completing"}).State)
	free()
	require.NoError(t, p.Shutdown(context.Background()))
	assert.Equal(t, 3, srv.Requests())

	next := calling(t, srv, onceward.Config{Journal: openSQLite(t, path)})
	report, err := next.Resume(context.Background())
	require.NoError(t, err)
	assert.Zero(t, report.Claimed)
	for _, name := range []string{"before", "while beginning", "while completing"} {
		op := next.Recorded(onceward.Ref{ID: name})
		assert.Equal(t, journal.StateCompleted, op.State, name)
		assert.Equal(t, paid, string(op.Answer.Body), name)
		assert.Equal(t, 1, srv.EffectsFor(op.Key), name)
	}
}

func TestABodyThatFailsInTheMiddleOfARead(t *testing.T) {
	errPipe := errors.New("the upload broke off")
	srv := serving(t, providers.Stripe(), nil)
	p := calling(t, srv, onceward.Config{})
	broken := &watchedBody{Reader: io.MultiReader(strings.NewReader("amount="), brokenReader{errPipe})}
	for _, length := range []int64{-1, 20} {
		out := p.Ask(named(t, invoice), charging(srv), func(r *http.Request) {
			r.Body, r.GetBody, r.ContentLength = broken, nil, length
		})
		require.ErrorIs(t, out.Err, onceward.ErrInvalidRequest)
		require.ErrorIs(t, out.Err, errPipe)
		assert.NotContains(t, out.Err.Error(), "amount=")
	}
	assert.Positive(t, broken.Closed.Load())
	assert.Empty(t, p.Everything())
	assert.Zero(t, srv.Requests())
	require.NoError(t, p.Ask(named(t, invoice), charging(srv)).Err, "the name is still free")
}

type brokenReader struct{ err error }

func (r brokenReader) Read([]byte) (int, error) { return 0, r.err }

// Header values with control characters are refused.
func TestHeaderWithControlCharactersIsRefused(t *testing.T) {
	srv := serving(t, providers.Stripe(), nil)
	p := calling(t, srv, onceward.Config{})
	for _, value := range []string{"a\nb", "a\rb", "a\x00b", "a\x7fb", "\x01", "a\r\nX-Injected: 1"} {
		for _, name := range []string{"X-Note", "Authorization"} {
			out := p.Ask(named(t, invoice), charging(srv), func(r *http.Request) { r.Header[name] = []string{"fine", value} })
			// http.Client checks headers more strictly than a RoundTripper, and may refuse them first.
			require.ErrorIs(t, out.Err, onceward.ErrInvalidRequest, "%q", value)
			assert.ErrorContains(t, out.Err, name)
			assert.NotContains(t, out.Err.Error(), value)
		}
	}
	for _, name := range []string{"", "X Note", "X-Note:", "X-Nöte", "X-Note\n"} {
		out := p.Ask(named(t, invoice), charging(srv), func(r *http.Request) { r.Header[name] = []string{"1"} })
		require.ErrorIs(t, out.Err, onceward.ErrInvalidRequest, "%q", name)
	}
	assert.Empty(t, p.Everything())
	assert.Zero(t, srv.Requests())
	out := p.Ask(named(t, invoice), charging(srv), with("X-Note", "a tab\tand ünïcödé"))
	require.NoError(t, out.Err, "these are no control characters of a line's end")
}

// A key that its provider does not accept is refused before anything is recorded.
func TestKeyThatTheProviderRefuses(t *testing.T) {
	digits := own(func(e *providers.Endpoint) {
		e.Key.Alphabet, e.Key.MinLength, e.Key.MaxLength = "0123456789abcdef-", 4, 40
	})
	for _, row := range []struct {
		name string
		api  providers.Provider
		key  string // carried
		path string
	}{
		{"Stripe: too long", providers.Stripe(), strings.Repeat("k", 256), "/v1/charges"},
		{"Stripe: a space", providers.Stripe(), "sdk 1", "/v1/charges"},
		{"Stripe: not ASCII", providers.Stripe(), "schlüssel", "/v1/charges"},
		{"Adyen: too long", providers.Adyen(""), strings.Repeat("k", 65), "/v71/payments"},
		{"IETF: too long for any", providers.IETF(time.Hour), `"` + strings.Repeat("k", 1<<16) + `"`, "/orders"},
		{"IETF: without quotes", providers.IETF(time.Hour), "sdk-1", "/orders"},
		{"IETF: an open quote", providers.IETF(time.Hour), `"sdk-1`, "/orders"},
		{"raw: in quotes", providers.Raw(time.Hour), `"sdk-1"`, "/orders"},
		{"raw: too long", providers.Raw(time.Hour), strings.Repeat("k", 256), "/orders"},
		{"one's own: of another alphabet", digits, "wxyz", "/orders"},
		{"one's own: too short", digits, "123", "/orders"},
		{"one's own: too long", digits, strings.Repeat("1", 41), "/orders"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			srv := serving(t, row.api, nil)
			p := calling(t, srv, onceward.Config{})
			options := []option{to(http.MethodPost, srv.URL+row.path), carrying(row.key)}
			for what, ctx := range map[string]context.Context{"named": named(t, invoice), "unnamed": t.Context()} {
				out := p.Ask(ctx, options...)
				require.ErrorIs(t, out.Err, onceward.ErrInvalidRequest, what)
				if len(row.key) > 3 { // a shorter one may stand in the port
					assert.NotContains(t, out.Err.Error(), row.key)
				}
			}
			assert.Empty(t, p.Everything())
			assert.Zero(t, srv.Requests())
		})
	}
}

func TestNamesThatCanNotBeKeptAreRefused(t *testing.T) {
	srv := serving(t, providers.Stripe(), nil)
	p := calling(t, srv, onceward.Config{})
	for what, ctx := range map[string]context.Context{
		"an empty name":                named(t, ""),
		"a huge name":                  named(t, strings.Repeat("x", 1<<20)),
		"a name that is not UTF-8":     named(t, "invoice-\xff"),
		"a name with a zero byte":      named(t, "invoice-\x00"),
		"a huge scope":                 onceward.WithScope(named(t, invoice), strings.Repeat("x", 1<<20)),
		"a scope that is not UTF-8":    onceward.WithScope(named(t, invoice), "\xff"),
		"a parent that is no key":      onceward.WithParent(named(t, invoice), "me@example.com"),
		"a huge parent":                onceward.WithParent(named(t, invoice), onceward.Key(strings.Repeat("x", 1<<20))),
		"a scope alone, of an unnamed": onceward.WithScope(t.Context(), "\xff"),
	} {
		out := p.Ask(ctx, charging(srv))
		require.ErrorIs(t, out.Err, onceward.ErrInvalidRequest, what)
		assert.Less(t, len(out.Err.Error()), 2000, "%s is not repeated at length", what)
	}
	assert.Empty(t, p.Everything())
	assert.Zero(t, srv.Requests())
	longest := strings.Repeat("é", 256)
	require.NoError(t, p.Ask(named(t, longest), charging(srv)).Err)
	assert.Equal(t, journal.StateCompleted, p.Recorded(onceward.Ref{ID: longest}).State)
}

// A query that cannot be parsed is sent as it is, or refused before anything is recorded. A parameter that a lenient
// server reads as a credential is withheld, whether it can be unescaped or not.
func TestQueryThatCanNotBeRead(t *testing.T) {
	for _, query := range []string{"%zz=1", "a=1;token=2", "token=%zz", "a=%zz"} {
		t.Run(query, func(t *testing.T) {
			l := &line{}
			p := start(t, l, onceward.Config{})
			out := p.Ask(named(t, invoice), func(r *http.Request) { r.URL.RawQuery = query })
			if errors.Is(out.Err, onceward.ErrInvalidRequest) {
				assert.Empty(t, p.Everything())
				return
			}
			require.NoError(t, out.Err)
			require.Len(t, l.Sent(), 1)
			assert.Equal(t, chargeURL+"?"+query, l.Sent()[0].URL)
		})
	}
}

// Many callers of one name share one request, and its repeat once the answer is lost.
func TestManyCallersShareARepeat(t *testing.T) {
	t.Parallel()
	many := soak.Times(1000, 10_000)
	srv := serving(t, providers.Stripe(), nil)
	srv.Script(providertest.DropAfter(), providertest.DelayAfter(50*time.Millisecond))
	p := calling(t, srv, onceward.Config{})
	ctx := named(t, invoice)
	var callers sync.WaitGroup
	var executed, answered atomic.Int32
	errs := make([]error, many)
	for i := range many {
		callers.Go(func() {
			out := p.Ask(ctx, charging(srv))
			errs[i] = out.Err
			if out.Err == nil && out.Body == paid {
				answered.Add(1)
			}
			if out.Err == nil && !out.Op.Replayed {
				executed.Add(1)
			}
		})
	}
	callers.Wait()
	require.NoError(t, errors.Join(errs...))
	assert.EqualValues(t, many, answered.Load())
	assert.LessOrEqual(t, executed.Load(), int32(1), "the provider's own replay is one too")
	assert.Equal(t, 2, srv.Requests(), "the one that was lost, and its repeat")
	assert.Len(t, srv.Effects(), 1)
	assert.Len(t, p.Everything(), 1)
}

// A client used after Shutdown records and sends nothing.
func TestClientUsedAfterShutdown(t *testing.T) {
	srv := serving(t, providers.Stripe(), nil)
	p := calling(t, srv, onceward.Config{})
	require.NoError(t, p.Ask(named(t, invoice), charging(srv)).Err)
	require.NoError(t, p.Shutdown(t.Context()))

	for what, ctx := range map[string]context.Context{"a new name": named(t, "invoice-2/charge"), "a known one": named(t, invoice), "unnamed": t.Context()} {
		require.ErrorIs(t, p.Ask(ctx, charging(srv)).Err, onceward.ErrShutdown, what)
	}
	_, err := p.Resume(t.Context())
	require.ErrorIs(t, err, onceward.ErrShutdown)
	require.NoError(t, p.Run(t.Context()))
	assert.Equal(t, 1, srv.Requests())
	assert.Len(t, p.Everything(), 1)

	op, err := p.Operation(t.Context(), onceward.Ref{ID: invoice})
	require.NoError(t, err, "looking costs nothing, and the journal is the caller's")
	assert.Equal(t, onceward.StateCompleted, op.State)
	out := p.Ask(t.Context(), to(http.MethodGet, srv.URL+"/v1/charges"))
	require.NoError(t, out.Err, "calls without effect pass through")
}

// A call whose context has already ended records nothing.
func TestExpiredContextRecordsNothing(t *testing.T) {
	errMine := errors.New("the user pressed stop")
	for what, row := range map[string]struct {
		dead func(context.Context) (context.Context, context.CancelFunc)
		is   error
	}{
		"cancelled": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx, cancel
		}, context.Canceled},
		"cancelled with a cause": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			cancel(errMine)
			return ctx, func() { cancel(nil) }
		}, errMine},
		"past its deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, -time.Second)
		}, context.DeadlineExceeded},
	} {
		each(t, what, func(t *testing.T, j machine.Store) {
			l := &line{}
			p := start(t, l, onceward.Config{Journal: j})
			for name, ctx := range map[string]context.Context{"named": named(t, invoice), "unnamed": t.Context()} {
				ctx, cancel := row.dead(ctx)
				out := p.Ask(ctx)
				cancel()
				require.ErrorIs(t, out.Err, row.is, name)
				require.ErrorIs(t, out.Err, onceward.ErrNotSent, name)
			}
			ctx, cancel := row.dead(t.Context())
			defer cancel()
			_, err := p.Resume(ctx)
			require.Error(t, err)
			require.Error(t, p.Run(ctx))
			_, err = p.Operation(ctx, onceward.Ref{ID: invoice})
			require.Error(t, err)
			assert.Empty(t, p.Everything())
			assert.Empty(t, l.Sent())
		})
	}
}

func TestANilBodyAndNoBodyAreTheSameRequest(t *testing.T) {
	t.Parallel()
	bodies := map[string]option{
		"nil":         func(r *http.Request) { r.Body, r.GetBody, r.ContentLength = nil, nil, 0 },
		"http.NoBody": func(r *http.Request) { r.Body, r.GetBody, r.ContentLength = http.NoBody, nil, 0 },
		"an empty one": func(r *http.Request) {
			r.Body, r.GetBody, r.ContentLength = io.NopCloser(strings.NewReader("")), nil, 0
		},
		"unknown length": func(r *http.Request) {
			r.Body, r.GetBody, r.ContentLength = io.NopCloser(strings.NewReader("")), nil, -1
		},
	}
	for first := range bodies {
		t.Run(first, func(t *testing.T) {
			var got []providertest.Request
			srv := serving(t, providers.Stripe(), func(r providertest.Request) { got = append(got, r) })
			p := calling(t, srv, onceward.Config{})
			require.NoError(t, p.Ask(named(t, invoice), charging(srv), bodies[first]).Err)
			for second, without := range bodies {
				out := p.Ask(named(t, invoice), charging(srv), without)
				require.NoError(t, out.Err, second)
				assert.True(t, out.Op.Replayed, second)
			}
			require.ErrorIs(t, p.Ask(named(t, invoice), charging(srv)).Err, onceward.ErrKeyReused, "one with a body is another")
			require.Len(t, got, 1)
			assert.Empty(t, got[0].Body)
			assert.Equal(t, []string{"0"}, got[0].Header["Content-Length"])
		})
	}
}
