package inbound_test

import "github.com/onceward/onceward/internal/oncetest"

// These names stand for those of package oncetest, which documents them.
type (
	line      = oncetest.Line
	option    = oncetest.Option
	outcome   = oncetest.Outcome
	process   = oncetest.Process
	reply     = oncetest.Reply
	roundTrip = oncetest.RoundTrip
)

const (
	chargeForm = oncetest.ChargeForm
	chargeURL  = oncetest.ChargeURL
	ownURL     = oncetest.OwnURL
	paid       = oncetest.Paid
)

var (
	body        = oncetest.Body
	carriedRef  = oncetest.CarriedRef
	carrying    = oncetest.Carrying
	cuts        = oncetest.Cuts
	declined    = oncetest.Declined
	distinct    = oncetest.Distinct
	doing       = oncetest.Doing
	each        = oncetest.Each
	eachJournal = oncetest.EachJournal
	frozen      = oncetest.Frozen
	hangs       = oncetest.Hangs
	inBox       = oncetest.InBox
	limited     = oncetest.Limited
	loses       = oncetest.Loses
	ofTenant    = oncetest.OfTenant
	once        = oncetest.Once
	openSQLite  = oncetest.OpenSQLite
	own         = oncetest.Own
	pass        = oncetest.Pass
	pays        = oncetest.Pays
	quick       = oncetest.Quick
	refuses     = oncetest.Refuses
	says        = oncetest.Says
	start       = oncetest.Start
	startFlows  = oncetest.StartFlows
	takes       = oncetest.Takes
	testSecret  = oncetest.TestSecret
	to          = oncetest.To
	virtual     = oncetest.Virtual
	with        = oncetest.With
	wrongKey    = oncetest.WrongKey
)
