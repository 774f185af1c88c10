package reconcile_test

import "github.com/onceward/onceward/internal/oncetest"

// These names stand for those of package oncetest, which documents them.
type (
	blinded   = oncetest.Blinded
	claimsNot = oncetest.ClaimsNot
	line      = oncetest.Line
	option    = oncetest.Option
	outcome   = oncetest.Outcome
	process   = oncetest.Process
	reply     = oncetest.Reply
	teller    = oncetest.Teller
)

const (
	canary        = oncetest.Canary
	chargeURL     = oncetest.ChargeURL
	form          = oncetest.Form
	invoice       = oncetest.Invoice
	order1        = oncetest.Order1
	ownURL        = oncetest.OwnURL
	paid          = oncetest.Paid
	signingSecret = oncetest.SigningSecret
	tellerToken   = oncetest.TellerToken
)

var (
	brokenBody       = oncetest.BrokenBody
	closing          = oncetest.Closing
	another          = oncetest.Another
	answers          = oncetest.Answers
	atBank           = oncetest.AtBank
	bank             = oncetest.Bank
	bearer           = oncetest.Bearer
	body             = oncetest.Body
	carrying         = oncetest.Carrying
	chargeRequest    = oncetest.ChargeRequest
	charges          = oncetest.Charges
	cuts             = oncetest.Cuts
	declined         = oncetest.Declined
	each             = oncetest.Each
	errBlinded       = oncetest.ErrBlinded
	frozen           = oncetest.Frozen
	loses            = oncetest.Loses
	named            = oncetest.Named
	onDisk           = oncetest.OnDisk
	once             = oncetest.Once
	openBank         = oncetest.OpenBank
	openSQLite       = oncetest.OpenSQLite
	own              = oncetest.Own
	pass             = oncetest.Pass
	plain            = oncetest.Plain
	saysAbsent       = oncetest.SaysAbsent
	handled          = oncetest.Handled
	quick            = oncetest.Quick
	refuses          = oncetest.Refuses
	says             = oncetest.Says
	setClock         = oncetest.SetClock
	start            = oncetest.Start
	takes            = oncetest.Takes
	tellerOfFlows    = oncetest.TellerOfFlows
	tellsOfTransfers = oncetest.TellsOfTransfers
	testSecret       = oncetest.TestSecret
	to               = oncetest.To
	unlooked         = oncetest.Unlooked
	virtual          = oncetest.Virtual
	with             = oncetest.With
	wrongKey         = oncetest.WrongKey
)
