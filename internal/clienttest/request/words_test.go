package request_test

import "github.com/onceward/onceward/internal/oncetest"

// These names stand for those of package oncetest, which documents them.
type (
	failing     = oncetest.Failing
	line        = oncetest.Line
	option      = oncetest.Option
	outcome     = oncetest.Outcome
	process     = oncetest.Process
	reply       = oncetest.Reply
	roundTrip   = oncetest.RoundTrip
	sent        = oncetest.Sent
	settler     = oncetest.Settler
	watchedBody = oncetest.WatchedBody
)

const (
	canary       = oncetest.Canary
	chargeForm   = oncetest.ChargeForm
	chargeURL    = oncetest.ChargeURL
	form         = oncetest.Form
	invoice      = oncetest.Invoice
	order1       = oncetest.Order1
	ownURL       = oncetest.OwnURL
	paid         = oncetest.Paid
	parentOfCall = oncetest.ParentOfCall
)

var (
	brokenBody          = oncetest.BrokenBody
	closing             = oncetest.Closing
	another             = oncetest.Another
	answers             = oncetest.Answers
	atBank              = oncetest.AtBank
	atMostOneEffectEach = oncetest.AtMostOneEffectEach
	bearer              = oncetest.Bearer
	body                = oncetest.Body
	byField             = oncetest.ByField
	calling             = oncetest.Calling
	cancelled           = oncetest.Cancelled
	card                = oncetest.Card
	cards               = oncetest.Cards
	carriedRef          = oncetest.CarriedRef
	carrying            = oncetest.Carrying
	charges             = oncetest.Charges
	charging            = oncetest.Charging
	cuts                = oncetest.Cuts
	declined            = oncetest.Declined
	distinct            = oncetest.Distinct
	doing               = oncetest.Doing
	each                = oncetest.Each
	eachJournal         = oncetest.EachJournal
	errDiskFull         = oncetest.ErrDiskFull
	errReset            = oncetest.ErrReset
	frozen              = oncetest.Frozen
	hangs               = oncetest.Hangs
	inBox               = oncetest.InBox
	inUse               = oncetest.InUse
	invalid             = oncetest.Invalid
	journals            = oncetest.Journals
	json1               = oncetest.JSON
	keyed               = oncetest.Keyed
	leavesInFlight      = oncetest.LeavesInFlight
	leftInFlight        = oncetest.LeftInFlight
	limited             = oncetest.Limited
	loses               = oncetest.Loses
	misused             = oncetest.Misused
	modes               = oncetest.Modes
	mustParse           = oncetest.MustParse
	named               = oncetest.Named
	noGuard             = oncetest.NoGuard
	noKey               = oncetest.NoKey
	noRetention         = oncetest.NoRetention
	onDisk              = oncetest.OnDisk
	once                = oncetest.Once
	openBank            = oncetest.OpenBank
	openSQLite          = oncetest.OpenSQLite
	own                 = oncetest.Own
	pass                = oncetest.Pass
	pays                = oncetest.Pays
	plain               = oncetest.Plain
	quick               = oncetest.Quick
	refuses             = oncetest.Refuses
	remembers           = oncetest.Remembers
	repeated            = oncetest.Repeated
	requireUUID         = oncetest.RequireUUID
	says                = oncetest.Says
	serving             = oncetest.Serving
	setClock            = oncetest.SetClock
	stalls              = oncetest.Stalls
	start               = oncetest.Start
	startFlows          = oncetest.StartFlows
	streams             = oncetest.Streams
	takes               = oncetest.Takes
	tellerOfFlows       = oncetest.TellerOfFlows
	tellsOfTransfers    = oncetest.TellsOfTransfers
	tenSeconds          = oncetest.TenSeconds
	testSecret          = oncetest.TestSecret
	to                  = oncetest.To
	toOwn               = oncetest.ToOwn
	unavailable         = oncetest.Unavailable
	unlooked            = oncetest.Unlooked
	virtual             = oncetest.Virtual
	waitingFor          = oncetest.WaitingFor
	with                = oncetest.With
	wrongKey            = oncetest.WrongKey
)
