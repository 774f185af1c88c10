package promises_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// stage is where a history of the model is played with real parts: clients that
// share a SQLite file, a provider in a box, a network that the test holds in its
// hand, and one clock for all that the test moves.
type stage struct {
	*network
	t     *testing.T
	srv   *providertest.Server
	path  string
	ahead atomic.Int64
	works atomic.Pointer[func()] // done in the middle of an execution
	held  chan struct{}          // until release
}

// contracts of the model's worlds.
var (
	recognisesAll       = own(func(e *providers.Endpoint) { e.RefusalsRegisterNoKey = false })
	recognisesSuccesses = own(func(e *providers.Endpoint) { e.Remembers = providers.Successes })
	takesNoKey          = own(func(e *providers.Endpoint) {
		e.Key, e.Retention, e.Remembers, e.InFlightGuard, e.RefusalsRegisterNoKey = providers.Key{}, 0, providers.Nothing, false, false
	})
	hasNoGuard = own(func(e *providers.Endpoint) { e.InFlightGuard = false })
	// failsCleanly executes again what it refused, and a refusal is an answer.
	failsCleanly = own(func(e *providers.Endpoint) {
		e.Remembers = providers.SuccessesCleanFailures
		e.Rules = slices.Concat([]providers.Rule{{Status: 402, Verdict: providers.Final}}, e.Rules)
	})
)

// onStage sets one up. Of the executions, those in answers are answered by these
// statuses, the others pay.
func onStage(t *testing.T, p providers.Provider, answers ...int) *stage {
	t.Helper()
	s := &stage{t: t, path: filepath.Join(t.TempDir(), "journal.db"), network: &network{}, held: make(chan struct{})}
	var executed atomic.Int64
	s.srv = providertest.NewUnstartedServer(p, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f := s.works.Load(); f != nil {
			(*f)()
		}
		if n := int(executed.Add(1)); n <= len(answers) && answers[n-1] != http.StatusOK {
			w.WriteHeader(answers[n-1])
			return
		}
		pays(w, r)
	}))
	s.srv.RetryAfter = -1
	s.srv.Start()
	t.Cleanup(s.srv.Close)
	s.via = s.srv.Client().Transport
	return s
}

// client starts a client with a connection to the journal of its own, as another
// process has it.
func (s *stage) client(adjust ...func(*onceward.Config)) *process {
	s.t.Helper()
	cfg := onceward.Config{Journal: openSQLite(s.t, s.path), Providers: []providers.Provider{s.srv.Provider()}, Backoff: quick}
	for _, f := range adjust {
		f(&cfg)
	}
	p := start(s.t, s.network, cfg)
	setClock(p.Client, func() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) })
	return p
}

// passes lets time pass for everybody, while the journal is in use.
func (s *stage) passes(d time.Duration) {
	s.t.Helper()
	s.srv.Advance(d)
	if d > between {
		j := openSQLite(s.t, s.path)
		for ; d > between; d -= between {
			s.ahead.Add(int64(between))
			seesTheClock(s.t, j, s.now())
		}
	}
	s.ahead.Add(int64(d))
}

func (s *stage) now() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }

const nameOnStage = "invoice-1/charge"

// release lets an execution go on that waits for held.
func (s *stage) release() { close(s.held) }

// asks asks for the operation.
func (s *stage) asks(p *process) outcome { return s.asksUnder(s.t.Context(), p) }

func (s *stage) asksUnder(ctx context.Context, p *process) outcome {
	return p.Ask(onceward.WithOperation(ctx, nameOnStage), to("POST", s.srv.URL+"/orders"))
}

// state is where the operation stands.
func (s *stage) state(p *process) onceward.State {
	return p.Recorded(onceward.Ref{ID: nameOnStage}).State
}

// effects asserts how many requests the provider has seen and executed with effect.
func (s *stage) effects(requests, effects int) {
	s.t.Helper()
	assert.Equal(s.t, requests, s.srv.Requests(), "requests")
	assert.Len(s.t, s.srv.Effects(), effects, "effects")
}

// network holds requests up. What is not scripted arrives at once.
type network struct {
	via http.RoundTripper

	mu        sync.Mutex
	crossings []crossing
	away      []*http.Request
}

// crossing is what becomes of one request on its way.
type crossing struct {
	// dawdles: the client is told that the connection failed, and the request
	// arrives only when the test says so.
	dawdles bool
	// meanwhile is called while the request is under way.
	meanwhile func()
}

// next scripts the next requests.
func (n *network) next(crossings ...crossing) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.crossings = append(n.crossings, crossings...)
}

func (n *network) RoundTrip(req *http.Request) (*http.Response, error) {
	n.mu.Lock()
	var f crossing
	if len(n.crossings) > 0 {
		f, n.crossings = n.crossings[0], n.crossings[1:]
	}
	n.mu.Unlock()
	if f.dawdles {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		late := req.Clone(context.Background())
		late.Body = io.NopCloser(bytes.NewReader(body))
		n.mu.Lock()
		n.away = append(n.away, late)
		n.mu.Unlock()
	}
	if f.meanwhile != nil {
		f.meanwhile()
	}
	if f.dawdles {
		return nil, errReset
	}
	return n.via.RoundTrip(req)
}

// arrives lets the first request that dawdles arrive, whose answer nobody hears.
func (s *stage) arrives() {
	s.t.Helper()
	s.mu.Lock()
	require.NotEmpty(s.t, s.away, "no request is on its way")
	late := s.away[0]
	s.away = s.away[1:]
	s.mu.Unlock()
	resp, err := s.via.RoundTrip(late)
	require.NoError(s.t, err)
	require.NoError(s.t, resp.Body.Close())
}

// says has somebody say what became of the operation.
func (s *stage) says(p *process, resolution onceward.Resolution) {
	s.t.Helper()
	_, err := p.ResolveAs(onceward.Ref{ID: nameOnStage}, resolution, nil)
	require.NoError(s.t, err, fmt.Sprint(resolution))
}
