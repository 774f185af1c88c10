package background_test

import "github.com/onceward/onceward/internal/oncetest"

// These names stand for those of package oncetest, which documents them.
type (
	teller    = oncetest.Teller
	blinded   = oncetest.Blinded
	claimsNot = oncetest.ClaimsNot
	failing   = oncetest.Failing
	line      = oncetest.Line
	option    = oncetest.Option
	outcome   = oncetest.Outcome
	process   = oncetest.Process
	reply     = oncetest.Reply
	roundTrip = oncetest.RoundTrip
	settler   = oncetest.Settler
)

const (
	chargeForm   = oncetest.ChargeForm
	chargeURL    = oncetest.ChargeURL
	form         = oncetest.Form
	invoice      = oncetest.Invoice
	ownURL       = oncetest.OwnURL
	paid         = oncetest.Paid
	parentOfCall = oncetest.ParentOfCall
	tellerToken  = oncetest.TellerToken
)

var (
	closing        = oncetest.Closing
	another        = oncetest.Another
	atBank         = oncetest.AtBank
	bearer         = oncetest.Bearer
	body           = oncetest.Body
	cancelled      = oncetest.Cancelled
	card           = oncetest.Card
	cards          = oncetest.Cards
	carriedRef     = oncetest.CarriedRef
	carrying       = oncetest.Carrying
	chargeRequest  = oncetest.ChargeRequest
	charges        = oncetest.Charges
	cuts           = oncetest.Cuts
	declined       = oncetest.Declined
	distinct       = oncetest.Distinct
	doing          = oncetest.Doing
	each           = oncetest.Each
	eachJournal    = oncetest.EachJournal
	errBlinded     = oncetest.ErrBlinded
	errDiskFull    = oncetest.ErrDiskFull
	errLooks       = oncetest.ErrLooks
	frozen         = oncetest.Frozen
	hangs          = oncetest.Hangs
	invalid        = oncetest.Invalid
	json1          = oncetest.JSON
	leavesInFlight = oncetest.LeavesInFlight
	loses          = oncetest.Loses
	misused        = oncetest.Misused
	modes          = oncetest.Modes
	named          = oncetest.Named
	noGuard        = oncetest.NoGuard
	noKey          = oncetest.NoKey
	noRetention    = oncetest.NoRetention
	onDisk         = oncetest.OnDisk
	once           = oncetest.Once
	own            = oncetest.Own
	pass           = oncetest.Pass
	plain          = oncetest.Plain
	refuses        = oncetest.Refuses
	requireUUID    = oncetest.RequireUUID
	says           = oncetest.Says
	setClock       = oncetest.SetClock
	stalls         = oncetest.Stalls
	start          = oncetest.Start
	startFlows     = oncetest.StartFlows
	takes          = oncetest.Takes
	tellerOfFlows  = oncetest.TellerOfFlows
	tenSeconds     = oncetest.TenSeconds
	to             = oncetest.To
	toOwn          = oncetest.ToOwn
	unavailable    = oncetest.Unavailable
	unlooked       = oncetest.Unlooked
	virtual        = oncetest.Virtual
	waitingFor     = oncetest.WaitingFor
	with           = oncetest.With
	wrongKey       = oncetest.WrongKey
)
