package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/lifeline"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/server"
)

const month = 30 * 24 * time.Hour // Endpoint.Retain and RefuseFor by default

var errLost = errors.New("the connection broke")

// line is the way from a client to a service. It asks the handler as a server would, and may lose answers.
type line struct {
	handler http.Handler
	lose    int // so many answers, from now on
	asked   int
	heard   func(status int) // of each answer
}

func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	l.asked++
	in := r.Clone(context.WithoutCancel(r.Context()))
	in.Header.Set("X-Tenant", "acme")
	if in.Body == nil {
		in.Body = http.NoBody
	}
	got := httptest.NewRecorder()
	l.handler.ServeHTTP(got, in)
	if l.heard != nil {
		l.heard(got.Code)
	}
	if l.lose > 0 {
		l.lose--
		return nil, errLost
	}
	resp := got.Result()
	resp.Request = r
	return resp, nil
}

// payer is a client of such a service. Two payers of one service are a client that has lost its journal.
type payer struct {
	*onceward.Client
	t *testing.T
}

func (l *line) payer(t *testing.T, attempts int) payer {
	t.Helper()
	c, err := onceward.New(onceward.Config{
		Journal: memory.New(), Providers: []providers.Provider{providers.Onceward(month, "shop.example")},
		HTTPClient: &http.Client{Transport: l}, Secret: []byte("0123456789abcdef"), Logger: slog.New(slog.DiscardHandler),
		Backoff: backoff.Policy{Initial: time.Millisecond, Max: time.Millisecond, MaxAttempts: attempts},
	})
	require.NoError(t, err)
	return payer{c, t}
}

// pay asks for the one payment, and returns the status.
func (p payer) pay(body string) (int, error) {
	p.t.Helper()
	return p.payWithin(p.t.Context(), body)
}

func (p payer) payWithin(ctx context.Context, body string) (int, error) {
	p.t.Helper()
	ctx = onceward.WithOperation(ctx, "invoice-1")
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://shop.example/payments", strings.NewReader(body))
	require.NoError(p.t, err)
	resp, err := p.HTTPClient().Do(r)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(p.t, err)
	require.NoError(p.t, resp.Body.Close())
	return resp.StatusCode, nil
}

func (p payer) state() onceward.State {
	p.t.Helper()
	op, err := p.Operation(p.t.Context(), onceward.Ref{ID: "invoice-1"})
	require.NoError(p.t, err)
	return op.State
}

// A client with the table Onceward ends each situation of such a service as the service means it.
func TestClientBeforeTheService(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		run  func(t *testing.T, s *shop)
	}{
		{"an answer that is lost is asked for again", func(t *testing.T, s *shop) {
			l := &line{handler: s.server.Atomic("payments", http.HandlerFunc(pay), server.Endpoint{}), lose: 3}
			status, err := l.payer(t, 5).pay("1")
			require.NoError(t, err)
			assert.Equal(t, http.StatusCreated, status)
			assert.Equal(t, 1, s.rows())
		}},
		{"a decline that is recorded is final, though its first answer is lost", func(t *testing.T, s *shop) {
			l := &line{lose: 1, handler: s.server.Atomic("payments", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				book(r)
				w.WriteHeader(http.StatusPaymentRequired)
			}), server.Endpoint{})}
			p := l.payer(t, 5)
			status, err := p.pay("1")
			require.NoError(t, err)
			assert.Equal(t, http.StatusPaymentRequired, status)
			assert.Equal(t, onceward.StateCompleted, p.state())
			assert.Equal(t, 2, l.asked)
			assert.Equal(t, 1, s.rows())
		}},
		{"a refusal that is not recorded is final on a first attempt, and proves nothing on a later one", func(t *testing.T, s *shop) {
			missing := http.NotFoundHandler()
			l := &line{handler: s.server.Atomic("payments", missing, server.Endpoint{})}
			status, err := l.payer(t, 3).pay("1")
			require.NoError(t, err)
			assert.Equal(t, http.StatusNotFound, status)
			assert.Equal(t, 1, l.asked)

			l = &line{handler: l.handler, lose: 1}
			p := l.payer(t, 3)
			_, err = p.pay("1")
			require.ErrorIs(t, err, onceward.ErrPending)
			assert.Equal(t, 3, l.asked)
			assert.Equal(t, onceward.StatePending, p.state())
		}},
		{"a failure leaves nothing, and is asked for again", func(t *testing.T, s *shop) {
			failures := 2
			l := &line{handler: s.server.Atomic("payments", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				pay(httptest.NewRecorder(), r)
				if failures--; failures >= 0 {
					w.WriteHeader(http.StatusInternalServerError)
					return
				}
				w.WriteHeader(http.StatusCreated)
			}), server.Endpoint{})}
			status, err := l.payer(t, 5).pay("1")
			require.NoError(t, err)
			assert.Equal(t, http.StatusCreated, status)
			assert.Equal(t, 1, s.rows())
		}},
		{"the same key for another request leaves that one's outcome open", func(t *testing.T, s *shop) {
			l := &line{handler: s.server.Atomic("payments", http.HandlerFunc(pay), server.Endpoint{})}
			_, err := l.payer(t, 5).pay("1")
			require.NoError(t, err)
			_, err = l.payer(t, 5).pay("2") // by a client that does not know who has used its key
			require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
			require.ErrorContains(t, err, "the key was used for another request")
			assert.Equal(t, 1, s.rows())
		}},
		{"a request that is being served is waited for", func(t *testing.T, s *shop) {
			began, goOn := make(chan struct{}), make(chan struct{})
			h := s.server.Atomic("payments", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				close(began)
				<-goOn
				pay(w, r)
			}), server.Endpoint{})
			first := make(chan error, 1)
			go func() {
				_, err := (&line{handler: h}).payer(t, 1).pay("1")
				first <- err
			}()
			<-began
			var heard []int
			second := (&line{handler: h, heard: func(status int) {
				if heard = append(heard, status); len(heard) == 1 {
					close(goOn)
				}
			}}).payer(t, 5)
			status, err := second.pay("1")
			require.NoError(t, err)
			assert.Equal(t, http.StatusCreated, status)
			assert.Equal(t, []int{http.StatusConflict, http.StatusCreated}, heard)
			require.NoError(t, <-first)
			assert.Equal(t, 1, s.rows())
		}},
		{"an outcome that the service does not know is pending until a person has resolved it", func(t *testing.T, s *shop) {
			l := &line{lose: 1, handler: s.server.Atomic("payments", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				book(r)
				tx, err := server.Tx(r.Context())
				if assert.NoError(t, err) {
					assert.NoError(t, tx.Commit())
				}
			}), server.Endpoint{})}
			p := l.payer(t, 2)
			_, err := p.pay("1")
			require.ErrorIs(t, err, onceward.ErrPending)
			assert.Equal(t, onceward.StatePending, p.state())
			require.NoError(t, s.server.Resolve(t.Context(), s.unknown(),
				server.Resolution{Answer: &journal.Answer{Status: http.StatusCreated}, By: "ada", Why: "it is in the ledger"}))
			after := &line{handler: l.handler}
			status, err := after.payer(t, 1).pay("1") // the first payer asks after the pause that the service asked for
			require.NoError(t, err)
			assert.Equal(t, http.StatusCreated, status)
			assert.Equal(t, 1, s.rows())
		}},
		{"a replay that is refused leaves it unknown", func(t *testing.T, s *shop) {
			l := &line{lose: 1, handler: s.server.Atomic("payments", http.HandlerFunc(pay), server.Endpoint{
				MayReplay: func(*http.Request, journal.Receipt) error { return errors.New("not any more") },
			})}
			p := l.payer(t, 5)
			_, err := p.pay("1")
			require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
			assert.Equal(t, onceward.StateUnknown, p.state())
		}},
		{"a body that breaks off on its way is sent again, though an answer was lost before", func(t *testing.T, s *shop) {
			for _, lose := range []int{0, 1} {
				h, asked := s.another(nil).Atomic("payments", http.HandlerFunc(pay), server.Endpoint{}), 0
				l := &line{lose: lose, handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if asked++; asked == lose+1 {
						r.Body = io.NopCloser(io.MultiReader(strings.NewReader("1"), errReader{}))
					}
					h.ServeHTTP(w, r)
				})}
				p := l.payer(t, 5)
				status, err := p.pay("1")
				require.NoError(t, err)
				assert.Equal(t, http.StatusCreated, status)
				assert.Equal(t, onceward.StateCompleted, p.state())
			}
			assert.Equal(t, 1, s.rows())
		}},
		{"a body that is too large had no effect", func(t *testing.T, s *shop) {
			p := (&line{handler: s.server.Atomic("payments", http.HandlerFunc(pay), server.Endpoint{MaxRequest: 8})}).payer(t, 5)
			status, err := p.pay("123456789")
			require.NoError(t, err)
			assert.Equal(t, http.StatusRequestEntityTooLarge, status)
			assert.Equal(t, onceward.StateCancelled, p.state())
		}},
	} {
		for name, flavour := range map[string]server.Flavour{"IETF": server.IETF("https://shop.example/keys"), "Stripe": server.Stripe()} {
			t.Run(row.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				folder := t.TempDir()
				synctest.Test(t, func(t *testing.T) { // the pauses that the service asks for take no time
					row.run(t, openIn(t, folder, func(o *server.Options) { o.Flavour = flavour }))
				})
			})
		}
	}
}

// The table Onceward reads each refusal of the server, in both flavours, as the server means it: on a first attempt, and after an
// attempt that may have taken effect.
func TestClientReadsEveryProblem(t *testing.T) {
	t.Parallel()
	meant := map[string]providers.Verdict{
		"key-missing": providers.Rejected, "key-malformed": providers.Rejected, "request-too-large": providers.Rejected,
		"request-broken": providers.NotExecuted, "too-many": providers.NotExecuted,
		"key-reused": providers.Misuse, "in-flight": providers.InFlight, "outcome-unknown": providers.InFlight,
		"key-expired": providers.Indeterminate, "replay-forbidden": providers.Indeterminate,
	}
	router, err := tables.NewRouter([]providers.Provider{providers.Onceward(month, "shop.example")})
	require.NoError(t, err)
	route := router.Route(http.MethodPost, &url.URL{Scheme: "https", Host: "shop.example", Path: "/payments"})
	for _, p := range problems(t) {
		want, is := meant[p.Name]
		if !is {
			require.GreaterOrEqual(t, p.Status, 500, p.Name)
			want = providers.Retry
		}
		for name, flavour := range map[string]server.Flavour{"IETF": server.IETF("https://shop.example/keys"), "IETF without a page": server.IETF(""), "Stripe": server.Stripe()} {
			got := httptest.NewRecorder()
			got.Header().Set("Cache-Control", "no-store")
			if p.RetryAfter > 0 {
				got.Header().Set("Retry-After", strconv.Itoa(p.RetryAfter))
			}
			flavour.Refuse(got, p)
			for _, later := range []bool{false, true} {
				judged := route.Classify(tables.Answer{Status: got.Code, Header: got.Header(), Body: got.Body.Bytes(), Later: later})
				assert.Equal(t, want.String(), judged.Verdict.String(), "%s, %s, later=%v", p.Name, name, later)
			}
		}
	}
}

// A key ends unknown, and is never executed again, once its answer is no longer kept.
func TestClientAfterTheAnswersEnd(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := openIn(t, folder, nil)
		h := s.server.Atomic("payments", http.HandlerFunc(pay), server.Endpoint{})
		_, err := (&line{handler: h}).payer(t, 1).pay("1")
		require.NoError(t, err)
		for day := range 8 { // with some traffic, by which the journal sees the time
			<-time.After(24 * time.Hour)
			require.Equal(t, http.StatusCreated, ask(h, "POST", "/payments", "1", with("X-Tenant", "acme"), keyed(fmt.Sprint("traffic-", day))).Code)
		}
		before := s.rows()
		p := (&line{handler: h}).payer(t, 5)
		_, err = p.pay("1")
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		assert.Equal(t, before, s.rows())
	})
}

// These environment variables make the test binary a service. Only TestServiceThatIsKilled sets them.
const (
	servedJournal = "ONCEWARD_SERVED_JOURNAL"
	servedFlavour = "ONCEWARD_SERVED_FLAVOUR"
	servedDies    = "ONCEWARD_SERVED_DIES" // at which step of its first request; else it lives on
)

var servedSteps = []string{"asked", "written", "answering", "committed"}

func TestServedChild(t *testing.T) {
	path := os.Getenv(servedJournal)
	if path == "" {
		return
	}
	step := func(at string) {
		if os.Getenv(servedDies) == at {
			self, err := os.FindProcess(os.Getpid())
			require.NoError(t, err)
			require.NoError(t, self.Kill())
			select {}
		}
	}
	j, err := sqlite.Open(path, sqlite.Options{Volatile: true})
	require.NoError(t, err)
	tx, err := j.BeginSQL(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec("CREATE TABLE IF NOT EXISTS ledger (id INTEGER PRIMARY KEY, amount TEXT)")
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	o := server.Options{
		Journal: j, Secrets: [][]byte{[]byte("0123456789abcdef")}, Logger: slog.New(slog.DiscardHandler),
		Caller: func(*http.Request) (server.Caller, error) { return server.Caller{Tenant: "acme"}, nil },
	}
	if os.Getenv(servedFlavour) == "Stripe" {
		o.Flavour = server.Stripe()
	}
	s, err := server.New(t.Context(), o)
	require.NoError(t, err)
	h := s.Atomic("payments", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		step("asked")
		tx, err := server.Tx(r.Context())
		if err != nil {
			return
		}
		body, _ := io.ReadAll(r.Body)
		booked, err := tx.Exec("INSERT INTO ledger (amount) VALUES (?)", string(body))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		step("written")
		id, _ := booked.LastInsertId()
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"id":%d}`, id)
		step("answering")
	}), server.Endpoint{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	fmt.Println("listening", listener.Addr())
	t.Log(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, r)
		step("committed")
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.Code)
		_, _ = answer.Body.WriteTo(w)
	})))
}

// served is the service as its clients see it. It is one process at a time, and another one after each that dies. It
// loses and cuts answers.
type served struct {
	t       *testing.T
	path    string
	flavour string

	mu     sync.Mutex
	asked  int
	deaths []string // of the processes to come
	killed int
	child  *exec.Cmd
	at     string
}

func (s *served) start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	s.child = exec.Command(self, "-test.run=^TestServedChild$")
	s.child.Env = append(os.Environ(), servedJournal+"="+s.path, servedFlavour+"="+s.flavour)
	if len(s.deaths) > 0 {
		s.child.Env = append(s.child.Env, servedDies+"="+s.deaths[0])
		s.deaths = s.deaths[1:]
	}
	if err := lifeline.Tie(s.child); err != nil {
		return err
	}
	out, err := s.child.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.child.Start(); err != nil {
		return err
	}
	said, err := bufio.NewReader(out).ReadString('\n')
	s.at = strings.TrimSpace(strings.TrimPrefix(said, "listening "))
	return err
}

func (s *served) stop() {
	_ = s.child.Process.Kill()
	_ = s.child.Wait()
}

func (s *served) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	to := r.Clone(r.Context())
	to.URL.Scheme, to.URL.Host = "http", s.at
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(to)
	if err != nil { // it has died
		s.killed++
		s.stop()
		if next := s.start(); next != nil {
			return nil, next
		}
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return nil, err
	case s.asked%3 == 0:
		return nil, errLost
	case s.asked%5 == 0:
		resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body[:len(body)/2]), cutOff{}))
	default:
		resp.Body = io.NopCloser(bytes.NewReader(body))
	}
	return resp, nil
}

type cutOff struct{}

func (cutOff) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// A service is killed at each step of its requests, and its answers are lost and cut. It takes each payment once, and
// its client has the answer of each.
func TestServiceThatIsKilled(t *testing.T) {
	t.Parallel()
	for _, flavour := range []string{"IETF", "Stripe"} {
		t.Run(flavour, func(t *testing.T) {
			t.Parallel()
			s := &served{t: t, path: filepath.Join(t.TempDir(), "shop.db"), flavour: flavour, deaths: servedSteps}
			require.NoError(t, s.start())
			defer s.stop()
			c, err := onceward.New(onceward.Config{
				Journal: memory.New(), Providers: []providers.Provider{providers.Onceward(month, "shop.example")},
				HTTPClient: &http.Client{Transport: s}, Logger: slog.New(slog.DiscardHandler),
				Backoff: backoff.Policy{Initial: time.Millisecond, Max: time.Millisecond, MaxAttempts: 20},
			})
			require.NoError(t, err)
			const payments = 12
			ids := map[int]bool{}
			for i := range payments {
				ctx := onceward.WithOperation(t.Context(), fmt.Sprint("invoice-", i))
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://shop.example/payments", strings.NewReader(fmt.Sprint(i)))
				require.NoError(t, err)
				resp, err := c.HTTPClient().Do(r)
				require.NoError(t, err)
				var paid struct{ ID int }
				require.NoError(t, json.NewDecoder(resp.Body).Decode(&paid))
				require.NoError(t, resp.Body.Close())
				assert.Equal(t, http.StatusCreated, resp.StatusCode)
				ids[paid.ID] = true
			}
			s.stop()
			assert.Len(t, ids, payments)
			assert.Equal(t, len(servedSteps), s.killed)
			j, err := sqlite.Open(s.path, sqlite.Options{})
			require.NoError(t, err)
			defer j.Close()
			tx, err := j.BeginSQL(t.Context())
			require.NoError(t, err)
			defer func() { _ = tx.Rollback() }()
			var rows, amounts int
			require.NoError(t, tx.QueryRow("SELECT count(*), count(DISTINCT amount) FROM ledger").Scan(&rows, &amounts))
			assert.Equal(t, payments, rows)
			assert.Equal(t, payments, amounts)
		})
	}
}
