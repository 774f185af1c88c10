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

// stage plays a model history with real parts. Clients share a SQLite file, and call a provider in a box. The
// test controls the network, and one clock for all.
type stage struct {
	*network
	t     *testing.T
	srv   *providertest.Server
	path  string
	ahead atomic.Int64
	works atomic.Pointer[func()] // done in the middle of an execution
	held  chan struct{}          // until release
}

// The contracts in the model's worlds.
var (
	recognisesAll       = own(func(e *providers.Endpoint) { e.RefusalsRegisterNoKey = false })
	recognisesSuccesses = own(func(e *providers.Endpoint) { e.Remembers = providers.Successes })
	takesNoKey          = own(func(e *providers.Endpoint) {
		e.Key, e.Retention, e.Remembers, e.InFlightGuard, e.RefusalsRegisterNoKey = providers.Key{}, 0, providers.Nothing, false, false
	})
	hasNoGuard = own(func(e *providers.Endpoint) { e.InFlightGuard = false })
	// failsCleanly executes a refused request again, and a refusal is an answer.
	failsCleanly = own(func(e *providers.Endpoint) {
		e.Remembers = providers.SuccessesCleanFailures
		e.Rules = slices.Concat([]providers.Rule{{Status: 402, Verdict: providers.Final}}, e.Rules)
	})
)

// onStage sets up a stage. The first executions are answered with the statuses in answers, and the others pay.
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

// client starts a client with its own connection to the journal, as another process has.
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

// passes lets time pass for all clients, while the journal is in use.
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

// release lets an execution that waits for held go on.
func (s *stage) release() { close(s.held) }

// asks asks for the operation.
func (s *stage) asks(p *process) outcome { return s.asksUnder(s.t.Context(), p) }

func (s *stage) asksUnder(ctx context.Context, p *process) outcome {
	return p.Ask(onceward.WithOperation(ctx, nameOnStage), to("POST", s.srv.URL+"/orders"))
}

// state returns the operation's state.
func (s *stage) state(p *process) onceward.State {
	return p.Recorded(onceward.Ref{ID: nameOnStage}).State
}

// effects asserts how many requests the provider has seen, and of those that took effect.
func (s *stage) effects(requests, effects int) {
	s.t.Helper()
	assert.Equal(s.t, requests, s.srv.Requests(), "requests")
	assert.Len(s.t, s.srv.Effects(), effects, "effects")
}

// network delays requests. A request that is not scripted arrives at once.
type network struct {
	via http.RoundTripper

	mu        sync.Mutex
	crossings []crossing
	away      []*http.Request
}

// crossing scripts one request's way.
type crossing struct {
	// dawdles makes the connection fail for the client. The request arrives only when the test says so.
	dawdles bool
	// meanwhile is called while the request is on its way.
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

// arrives lets the first dawdling request arrive. No client gets its answer.
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

// says records a person's decision on the operation.
func (s *stage) says(p *process, resolution onceward.Resolution) {
	s.t.Helper()
	_, err := p.ResolveAs(onceward.Ref{ID: nameOnStage}, resolution, nil)
	require.NoError(s.t, err, fmt.Sprint(resolution))
}
