package request_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/providers"
)

// An answer that consists of a Location replays its ID.
func TestAnswerOfALocationReplaysItsID(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, location, replayed string }{
		{"plain", "https://own.example/orders/17", "https://own.example/orders/17"},
		{"with a query", "/orders/17?page=2", "/orders/17?page=2"},
		{"signed", "https://files.example/orders/17?X-Amz-Signature=" + canary + "&page=2&X-Amz-Credential=" + canary, "https://files.example/orders/17?page=2"},
		{"with a user", "https://me:" + canary + "@own.example/orders/17", "https://own.example/orders/17"},
		{"with a token behind it", "https://own.example/orders/17#access_token=" + canary, "https://own.example/orders/17"},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			l := (&line{}).Then(says(201, "", "Location", row.location))
			p := start(t, l, onceward.Config{Journal: openSQLite(t, filepath.Join(dir, "journal.db")), Providers: []providers.Provider{own()}})
			out := p.Ask(named(t, invoice), to(http.MethodPost, ownURL), with("Referer", row.location))
			require.NoError(t, out.Err)
			assert.Equal(t, row.location, out.Header.Get("Location"), "its caller has it whole")
			assert.Empty(t, out.Header.Get("Onceward-Cut"))
			assert.Equal(t, row.replayed, l.Sent()[0].Header.Get("Referer"))

			again := p.Ask(named(t, invoice), to(http.MethodPost, ownURL))
			require.NoError(t, again.Err)
			require.True(t, again.Op.Replayed)
			assert.Equal(t, 201, again.Status)
			assert.Equal(t, row.replayed, again.Header.Get("Location"))
			if row.location != row.replayed {
				assert.Equal(t, "Location", again.Header.Get("Onceward-Cut"))
			} else {
				assert.NotContains(t, again.Header, "Onceward-Cut")
			}
			require.NoError(t, p.Shutdown(context.Background()))
			requireNoCanaryOnDisk(t, dir, 1)
		})
	}
}

func TestNoCredentialOfAURLInAHeaderIsWritten(t *testing.T) {
	t.Parallel()
	signed := "https://files.example/a?sig=" + canary
	for _, name := range []string{"Link", "Content-Location", "Refresh", "X-Next", "X-Callback"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			value := map[string]string{"Link": "<" + signed + ">; rel=next", "Refresh": "5; url=" + signed}[name]
			if value == "" {
				value = signed
			}
			l := (&line{}).Then(says(200, paid, name, value, "X-Request-Id", marker))
			p := start(t, l, onceward.Config{Journal: openSQLite(t, filepath.Join(dir, "journal.db")), Providers: []providers.Provider{own()}})
			require.NoError(t, p.Ask(named(t, invoice), to(http.MethodPost, ownURL), with(name, value)).Err)
			assert.Equal(t, value, l.Sent()[0].Header.Get(name), "it is sent as it is")
			op := p.Recorded(onceward.Ref{ID: invoice})
			assert.Equal(t, []string{name}, op.Request.WithheldHeaders)
			assert.Equal(t, name, op.Answer.Header.Get("Onceward-Cut"))
			require.NoError(t, p.Shutdown(context.Background()))
			assert.Contains(t, string(requireNoCanaryOnDisk(t, dir, 1)), marker)
		})
	}
}

// A header whose URL carried a credential is withheld. Resume reports it as missing, as any header with a credential.
func TestHeaderWithheldForItsURLIsMissed(t *testing.T) {
	withURL := with("X-Callback", "https://me.example/hook?token="+canary)
	srv, j := leftInFlight(t, providers.Stripe(), onceward.Config{}, withURL)
	next := calling(t, srv, onceward.Config{Journal: j})
	report, err := next.Resume(t.Context())
	require.NoError(t, err)
	require.Len(t, report.Problems, 1)
	require.ErrorIs(t, report.Problems[0], onceward.ErrCredentialMissing)
	assert.ErrorContains(t, report.Problems[0], "X-Callback")
	assert.Equal(t, 1, srv.Requests())
}

func TestKeptHeadersAreBounded(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	l := (&line{}).Then(reply{Answer: func(r *http.Request) (*http.Response, error) {
		resp, err := says(201, "", "Location", "/orders/17", "X-Big", big, "Onceward-Cut", "everything").Answer(r)
		for i := range 10_000 {
			resp.Header.Set(fmt.Sprintf("X-%d", i), "a")
		}
		resp.Trailer = http.Header{"X-Sum": {"1"}, "X-Big-Trailer": {big}}
		return resp, err
	}})
	p := start(t, l, onceward.Config{Providers: []providers.Provider{own()}, MaxResponseBody: 1 << 10})
	out := p.Ask(named(t, invoice), to(http.MethodPost, ownURL))
	require.NoError(t, out.Err)
	assert.Len(t, out.Header.Get("X-Big"), len(big), "its caller has it whole")
	a := p.Recorded(onceward.Ref{ID: invoice}).Answer
	for _, kept := range []http.Header{a.Header, a.Trailer} {
		size := 0
		for name, values := range kept {
			size += len(name) + len(strings.Join(values, ""))
		}
		assert.Less(t, size, 64<<10)
	}
	assert.Equal(t, http.Header{"X-Sum": {"1"}, "Onceward-Cut": {"X-Big-Trailer"}}, a.Trailer)

	again := p.Ask(named(t, invoice), to(http.MethodPost, ownURL))
	require.NoError(t, again.Err)
	assert.NotContains(t, again.Header, "X-Big")
	assert.Contains(t, again.Header, "X-1", "what is small is kept first")
	marked := again.Header.Get("Onceward-Cut")
	assert.Contains(t, marked, "Location", "and a thousand others")
	assert.Contains(t, marked, "…")
	assert.NotContains(t, marked, "everything")
	assert.Less(t, len(marked), 4<<10)
}

// Headers of up to 64 KiB are kept, to the byte.
func TestHeadersOfJustTheSizeAreKept(t *testing.T) {
	const room = 64<<10 - len("Content-Type") - len("application/json") - 32 - len("X-Big") - 32
	for _, size := range []int{room, room + 1} {
		p := start(t, (&line{}).Then(says(200, paid, "X-Big", strings.Repeat("x", size))), onceward.Config{})
		require.NoError(t, p.Ask(named(t, invoice)).Err)
		assert.Equal(t, size == room, p.Recorded(onceward.Ref{ID: invoice}).Answer.Header.Get("X-Big") != "")
	}
}

// A Location is kept even beside a header that is too large.
func TestALocationIsKeptBesideALargeHeader(t *testing.T) {
	l := (&line{}).Then(says(201, "", "Location", "/orders/17", "X-Big", strings.Repeat("x", 1<<20)))
	p := start(t, l, onceward.Config{Providers: []providers.Provider{own()}})
	require.NoError(t, p.Ask(named(t, invoice), to(http.MethodPost, ownURL)).Err)
	again := p.Ask(named(t, invoice), to(http.MethodPost, ownURL))
	require.NoError(t, again.Err)
	assert.Equal(t, "/orders/17", again.Header.Get("Location"))
	assert.Equal(t, "X-Big", again.Header.Get("Onceward-Cut"))
}

// The mark names at most sixteen headers, and 128 bytes of each name.
func TestMarkIsBounded(t *testing.T) {
	big := strings.Repeat("x", 1<<16)
	names := make([]string, 17)
	for i := range names {
		names[i] = fmt.Sprintf("X-%02d", i)
	}
	long := "X-A" + strings.Repeat("a", 125)
	for _, row := range []struct {
		name  string
		large []string
		mark  string
	}{
		{"as many as it may", names[:16], strings.Join(names[:16], ", ")},
		{"one more", names, strings.Join(names[:16], ", ") + ", …"},
		{"a name of that length", []string{long}, long},
		{"one that is longer", []string{long + "b"}, long + "…"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var header []string
			for _, name := range row.large {
				header = append(header, name, big)
			}
			p := start(t, (&line{}).Then(says(201, "", header...)), onceward.Config{Providers: []providers.Provider{own()}})
			require.NoError(t, p.Ask(named(t, invoice), to(http.MethodPost, ownURL)).Err)
			assert.Equal(t, []string{row.mark}, p.Recorded(onceward.Ref{ID: invoice}).Answer.Header["Onceward-Cut"])
		})
	}
}

// A provider's header is kept unless its name has the prefix of our marks.
func TestHeaderCalledAsOurMarks(t *testing.T) {
	for name, kept := range map[string]bool{"Onceward": true, "Oncewards-Own": true, "Onceward-": false, "Onceward-Replayed": false} {
		t.Run(name, func(t *testing.T) {
			p := start(t, (&line{}).Then(says(201, "", name, "the provider's")), onceward.Config{Providers: []providers.Provider{own()}})
			require.NoError(t, p.Ask(named(t, invoice), to(http.MethodPost, ownURL)).Err)
			assert.Equal(t, kept, p.Recorded(onceward.Ref{ID: invoice}).Answer.Header[name] != nil)
		})
	}
}

// The names of withheld headers are sorted, whatever their order in the request.
func TestHeadersWithheldInOrder(t *testing.T) {
	var options []option
	var names []string
	for i := range 8 {
		names = append(names, fmt.Sprintf("X-%d-Api-Key", i))
		options = append(options, with(names[i], "s3cret"))
	}
	p := start(t, &line{}, onceward.Config{Providers: []providers.Provider{own()}})
	require.NoError(t, p.Ask(named(t, invoice), append(options, to(http.MethodPost, ownURL))...).Err)
	assert.Equal(t, names, p.Recorded(onceward.Ref{ID: invoice}).Request.WithheldHeaders)
}

func TestALengthIsNotBelievedBeforeItIsThere(t *testing.T) {
	for name, limit := range map[string]int64{"without a limit": math.MaxInt64, "below a limit of a gigabyte": 1 << 30} {
		t.Run(name, func(t *testing.T) {
			hostile := streams(200, limit, func() io.Reader { return strings.NewReader(paid) })
			l := (&line{}).Then(hostile)
			p := start(t, l, onceward.Config{Providers: []providers.Provider{own()}, MaxResponseBody: limit, MaxRequestBody: limit})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			out := p.Ask(named(t, invoice), to(http.MethodPost, ownURL))
			runtime.ReadMemStats(&after)
			require.NoError(t, out.Err)
			assert.Equal(t, paid, out.Body)
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20))

			runtime.ReadMemStats(&before)
			out = p.Ask(named(t, "another"), to(http.MethodPost, ownURL), func(r *http.Request) { r.ContentLength = limit })
			runtime.ReadMemStats(&after)
			require.ErrorIs(t, out.Err, onceward.ErrInvalidRequest)
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20))
		})
	}
}

func TestALargeBodyIsReadWhole(t *testing.T) {
	for _, size := range []int{0, 1, 510, 511, 512, 513, 256 << 10, 256<<10 + 1, 256<<10 + 2, 3 << 20} {
		for _, announced := range []int64{-1, int64(size)} {
			text := strings.Repeat("x", size)
			l := (&line{}).Then(streams(200, announced, func() io.Reader { return strings.NewReader(text) }))
			p := start(t, l, onceward.Config{Providers: []providers.Provider{own()}, MaxResponseBody: 3 << 20})
			out := p.Ask(named(t, invoice), to(http.MethodPost, ownURL))
			require.NoError(t, out.Err)
			require.Len(t, out.Body, size)
			op := p.Recorded(onceward.Ref{ID: invoice})
			require.Len(t, op.Answer.Body, size)
			require.False(t, op.Answer.Omitted)
		}
	}
}

func TestARequestsURLAndHeadersAreBounded(t *testing.T) {
	for name, change := range map[string]option{
		"a query":  func(r *http.Request) { r.URL.RawQuery = "a=" + strings.Repeat("x", 5<<20) },
		"a header": with("X-Big", strings.Repeat("x", 5<<20)),
	} {
		t.Run(name, func(t *testing.T) {
			l := &line{}
			p := start(t, l, onceward.Config{Providers: []providers.Provider{own()}})
			require.ErrorIs(t, p.Ask(named(t, invoice), to(http.MethodPost, ownURL), change).Err, onceward.ErrInvalidRequest)
			assert.Empty(t, l.Sent())
			assert.Empty(t, p.Everything())
		})
	}
}

// An answer given by hand is kept without credentials. It has come from the provider, too.
func TestAnswerByHandIsKeptWithoutCredentials(t *testing.T) {
	dir := t.TempDir()
	l := (&line{}).Then(loses())
	p := start(t, l, onceward.Config{Journal: openSQLite(t, filepath.Join(dir, "journal.db")), Providers: []providers.Provider{own(noRetention)}, Backoff: once})
	require.ErrorIs(t, p.Ask(named(t, invoice), to(http.MethodPost, ownURL)).Err, onceward.ErrOutcomeUnknown)
	op, err := p.Operation(t.Context(), onceward.Ref{ID: invoice})
	require.NoError(t, err)
	_, err = p.Resolve(t.Context(), op.Seen, onceward.Executed, onceward.ResolveOptions{By: "me", Why: "seen", Answer: &onceward.Answer{
		Status: 201, Body: []byte(marker),
		Header: http.Header{"Set-Cookie": {canary}, "Location": {"/orders/17?sig=" + canary}, "Onceward-Answer": {"from the network"}},
	}})
	require.NoError(t, err)
	out := p.Ask(named(t, invoice), to(http.MethodPost, ownURL))
	require.NoError(t, out.Err)
	assert.Equal(t, "/orders/17", out.Header.Get("Location"))
	assert.NotContains(t, out.Header, "Set-Cookie")
	assert.NotEqual(t, "from the network", out.Header.Get("Onceward-Answer"))
	require.NoError(t, p.Shutdown(context.Background()))
	assert.Contains(t, string(requireNoCanaryOnDisk(t, dir, 1)), marker)
}

type idleReader struct{ n int }

func (r *idleReader) Read([]byte) (int, error) { r.n++; return 0, nil }

// A body that never yields a byte is not read forever.
func TestBodyThatGivesNothing(t *testing.T) {
	l := (&line{}).Then(streams(200, -1, func() io.Reader { return &idleReader{} }))
	p := start(t, l, onceward.Config{Providers: []providers.Provider{own()}, Backoff: quick})
	require.NoError(t, p.Ask(named(t, invoice), to(http.MethodPost, ownURL)).Err)
	assert.Len(t, l.Sent(), 2, "as one that was cut")
}

// A secret in an opaque URL or a host is not written.
func TestOpaqueURLOrHostIsNotWritten(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]option{
		"a query in an opaque URL":    func(r *http.Request) { r.URL.Opaque = "//own.example/orders?token=" + canary },
		"a user in an opaque URL":     func(r *http.Request) { r.URL.Opaque = "//me:" + canary + "@own.example/orders" },
		"a fragment in an opaque URL": func(r *http.Request) { r.URL.Opaque = "//own.example/orders#" + canary },
		"a user in the host":          func(r *http.Request) { r.Host = "me:" + canary + "@own.example" },
	} {
		t.Run(name, func(t *testing.T) {
			var heard confession
			dir := t.TempDir()
			l := &line{}
			p := start(t, l, heard.listen(onceward.Config{Journal: openSQLite(t, filepath.Join(dir, "journal.db")), Providers: []providers.Provider{own()}}))
			out := p.Ask(named(t, invoice), to(http.MethodPost, ownURL), change)
			require.ErrorIs(t, out.Err, onceward.ErrInvalidRequest)
			var e *onceward.Error
			require.ErrorAs(t, out.Err, &e)
			heard.tell(e)
			assert.Empty(t, l.Sent())
			requireNoCanary(t, "logs, Trace and errors", []byte(heard.String()))
			requireNoCanaryOnDisk(t, dir, 1)
		})
	}
	l := &line{}
	p := start(t, l, onceward.Config{Providers: []providers.Provider{own()}})
	require.NoError(t, p.Ask(named(t, invoice), to(http.MethodPost, ownURL), func(r *http.Request) { r.URL.Opaque = "//own.example/a%2Fb" }).Err)
	assert.Len(t, l.Sent(), 1)
}

// Authorize adds credentials only over TLS or to the local machine.
func TestAuthorizeNeedsAnEncryptedOrLocalURL(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		url   string
		asked bool
	}{
		{"https://own.example/orders", true},
		{"HTTPS://own.example/orders", true},
		{"http://localhost:8080/orders", true},
		{"http://api.localhost:8080/orders", true},
		{"http://127.0.0.1:8080/orders", true},
		{"http://127.1.2.3:8080/orders", true},
		{"http://[::1]:8080/orders", true},

		{"http://own.example/orders", false},
		{"http://localhost.example/orders", false},
		{"http://127.0.0.1.example/orders", false},
		{"http://10.0.0.1:8080/orders", false},
		{"http://[::ffff:10.0.0.1]:8080/orders", false},
	} {
		t.Run(row.url, func(t *testing.T) {
			l := &line{}
			u := mustParse(row.url)
			api := own()
			api.Hosts = []string{strings.ToLower(u.Host)}
			p := start(t, l, onceward.Config{Providers: []providers.Provider{api}, Backoff: quick, Authorize: func(r *http.Request) error {
				r.Header.Set("Authorization", "Bearer "+canary)
				return nil
			}})
			require.NoError(t, p.Ask(named(t, invoice), to(http.MethodPost, row.url)).Err)
			require.Len(t, l.Sent(), 1)
			assert.Equal(t, row.asked, l.Sent()[0].Header.Get("Authorization") != "")

			l.Then(loses(), loses(), loses(), loses(), loses())
			out := p.Ask(named(t, "pending"), to(http.MethodPost, row.url), with("X-Api-Key", "1"))
			var e *onceward.Error
			require.ErrorAs(t, out.Err, &e)
			require.ErrorIs(t, e, onceward.ErrPending)
			assert.Equal(t, row.asked, e.InBackground)
		})
	}
}

func TestAnErrorOfAuthorizeShowsNoQuery(t *testing.T) {
	dir := t.TempDir()
	var heard confession
	cause := &url.Error{Op: "Post", URL: "https://login.example/token?client_secret=" + canary, Err: io.ErrUnexpectedEOF}
	srv := serving(t, providers.Stripe(), nil)
	p := calling(t, srv, heard.listen(onceward.Config{
		Journal:   openSQLite(t, filepath.Join(dir, "journal.db")),
		Authorize: func(*http.Request) error { return fmt.Errorf("no token: %w", cause) },
	}))
	out := p.Ask(named(t, invoice), charging(srv))
	var e *onceward.Error
	require.ErrorAs(t, out.Err, &e)
	heard.tell(e)
	requireNoCanary(t, "errors, logs and Trace", []byte(heard.String()))
	requireNoCanary(t, "its text", []byte(out.Err.Error()))
	assert.ErrorContains(t, out.Err, "Config.Authorize: no token: Post \"https://login.example/token?…\": unexpected EOF")
	assert.ErrorIs(t, out.Err, io.ErrUnexpectedEOF)
	requireNoCanaryOnDisk(t, dir, 3)
}

// A program may pass on an untrusted client's headers. Their work is proportional to their number.
func TestManyHeadersTakeTimeInProportion(t *testing.T) {
	for _, name := range []string{"%d-Date", "%d-Token"} {
		soak.InProportion(t, 32_000, func(n int) {
			p := start(t, &line{}, onceward.Config{Backoff: once})
			require.NoError(t, p.Ask(named(t, invoice), with("Signature", "sig1=:abc=:"), func(r *http.Request) {
				for i := range n {
					r.Header.Set(fmt.Sprintf(name, i), "1")
				}
			}).Err)
		}, name)
	}
}

func TestAHeadIsKeptUpToFourMebibytes(t *testing.T) {
	fill := 4<<20 - len("/orders") - len("Content-Type"+form) - len("X-Fill")
	for n, kind := range map[int]error{fill: nil, fill + 1: onceward.ErrInvalidRequest} {
		p := start(t, &line{}, onceward.Config{Providers: []providers.Provider{own()}})
		require.ErrorIs(t, p.Ask(named(t, invoice), to("POST", ownURL), with("X-Fill", strings.Repeat("x", n))).Err, kind)
	}
}

func TestHeaderNameIsAToken(t *testing.T) {
	for _, name := range []string{"", "a b", "a:b", "a\x7f", "a\n", "\x00", "n\u00e9"} {
		l := &line{}
		p := start(t, l, onceward.Config{})
		out := p.Ask(named(t, invoice), func(r *http.Request) { r.Header[name] = []string{"1"} })
		require.Error(t, out.Err, "%q", name)
		assert.Empty(t, p.Everything(), "%q", name)
		assert.Empty(t, l.Sent())
		_, err := p.HTTP.Transport.RoundTrip(headed(t, name)) //nolint:bodyclose // there is none
		require.ErrorIs(t, err, onceward.ErrInvalidRequest, "%q", name)
	}
}

// headed makes a charge with a header that http.Client would refuse.
func headed(t *testing.T, name string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(named(t, invoice), http.MethodPost, chargeURL, nil)
	require.NoError(t, err)
	req.Header[name] = []string{"1"}
	return req
}
