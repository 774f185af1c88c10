package clienttest_test

import (
	"net/http"
	"testing"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// The words of package oncetest, which says what they mean.
type (
	line    = oncetest.Line
	sent    = oncetest.Sent
	reply   = oncetest.Reply
	outcome = oncetest.Outcome
	option  = oncetest.Option
)

const (
	paid       = oncetest.Paid
	chargeURL  = oncetest.ChargeURL
	chargeForm = oncetest.ChargeForm
	form       = oncetest.Form
	ownURL     = oncetest.OwnURL
	between    = oncetest.Between
)

var (
	says, streams, cuts, loses   = oncetest.Says, oncetest.Streams, oncetest.Cuts, oncetest.Loses
	refuses, hangs, stalls       = oncetest.Refuses, oncetest.Hangs, oncetest.Stalls
	takes, doing                 = oncetest.Takes, oncetest.Doing
	declined, inUse, misused     = oncetest.Declined, oncetest.InUse, oncetest.Misused
	wrongKey, invalid, frozen    = oncetest.WrongKey, oncetest.Invalid, oncetest.Frozen
	limited, unavailable         = oncetest.Limited, oncetest.Unavailable
	errReset                     = oncetest.ErrReset
	virtual, pass                = oncetest.Virtual, oncetest.Pass
	quick, once                  = oncetest.Quick, oncetest.Once
	carrying, with, to, body     = oncetest.Carrying, oncetest.With, oncetest.To, oncetest.Body
	named, own, mustParse        = oncetest.Named, oncetest.Own, oncetest.MustParse
	serving, charging, pays      = oncetest.Serving, oncetest.Charging, oncetest.Pays
	journals, openSQLite, onDisk = oncetest.Journals, oncetest.OpenSQLite, oncetest.OnDisk
	each, eachJournal            = oncetest.Each, oncetest.EachJournal
	seesTheClock, distinct       = oncetest.SeesTheClock, oncetest.Distinct
	setClock                     = oncetest.SetClock
)

type brokenBody = oncetest.BrokenBody

// process is oncetest's, with what the tests of this package do besides.
type process struct{ *oncetest.Process }

func start(t *testing.T, via http.RoundTripper, cfg onceward.Config) *process {
	t.Helper()
	return &process{oncetest.Start(t, via, cfg)}
}

func startFlows(t *testing.T, via http.RoundTripper, cfg onceward.Config, flows ...flow.Config) *process {
	t.Helper()
	return &process{oncetest.StartFlows(t, via, cfg, flows...)}
}

func calling(t *testing.T, srv *providertest.Server, cfg onceward.Config) *process {
	t.Helper()
	return &process{oncetest.Calling(t, srv, cfg)}
}

func inBox(t *testing.T, p providers.Provider, cfg onceward.Config) (*providertest.Server, *process) {
	t.Helper()
	srv, made := oncetest.InBox(t, p, cfg)
	return srv, &process{made}
}
