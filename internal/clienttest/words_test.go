package clienttest_test

import "github.com/onceward/onceward/internal/oncetest"

// The words of package oncetest, which says what they mean.
type (
	line    = oncetest.Line
	sent    = oncetest.Sent
	reply   = oncetest.Reply
	outcome = oncetest.Outcome
	option  = oncetest.Option
	process = oncetest.Process
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
	setClock, ofTenant           = oncetest.SetClock, oncetest.OfTenant
	start, startFlows            = oncetest.Start, oncetest.StartFlows
	calling, inBox               = oncetest.Calling, oncetest.InBox
)

type brokenBody = oncetest.BrokenBody
