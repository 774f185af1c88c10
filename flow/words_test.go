package flow_test

import (
	"net/http"
	"testing"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal/memory"
)

// Short names for package oncetest, which documents them.
type (
	line   = oncetest.Line
	sent   = oncetest.Sent
	reply  = oncetest.Reply
	option = oncetest.Option
	charge = oncetest.Charge
)

const (
	paid      = oncetest.Paid
	chargeURL = oncetest.ChargeURL
	form      = oncetest.Form
	ownURL    = oncetest.OwnURL
)

var (
	says, cuts, loses, refuses = oncetest.Says, oncetest.Cuts, oncetest.Loses, oncetest.Refuses
	hangs, takes, doing        = oncetest.Hangs, oncetest.Takes, oncetest.Doing
	declined, wrongKey, frozen = oncetest.Declined, oncetest.WrongKey, oncetest.Frozen
	virtual, pass, each        = oncetest.Virtual, oncetest.Pass, oncetest.Each
	once, own                  = oncetest.Once, oncetest.Own
	with, to, body             = oncetest.With, oncetest.To, oncetest.Body
	distinct, openSQLite       = oncetest.Distinct, oncetest.OpenSQLite
)

// sampled runs a test's i-th case in virtual time with a journal in memory. One case in n, and in the soak each, runs
// with a SQLite file too.
func sampled(t *testing.T, i, n int, name string, f func(t *testing.T, j machine.Store)) {
	t.Helper()
	if i%n == 0 || soak.On() {
		each(t, name, f)
		return
	}
	virtual(t, name, func(t *testing.T) { f(t, memory.New()) })
}

var testSecret = []byte("0123456789abcdef")

// process is oncetest's, with the helpers of this package's tests.
type process struct{ *oncetest.Process }

func startFlows(t *testing.T, via http.RoundTripper, cfg onceward.Config, flows ...flow.Config) *process {
	t.Helper()
	return &process{oncetest.StartFlows(t, via, cfg, flows...)}
}
