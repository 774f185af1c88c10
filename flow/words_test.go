package flow_test

import (
	"net/http"
	"testing"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/oncetest"
)

// The words of package oncetest, which says what they mean.
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

var testSecret = []byte("0123456789abcdef")

// process is oncetest's, with what the tests of this package do besides.
type process struct{ *oncetest.Process }

func startFlows(t *testing.T, via http.RoundTripper, cfg onceward.Config, flows ...flow.Config) *process {
	t.Helper()
	return &process{oncetest.StartFlows(t, via, cfg, flows...)}
}
