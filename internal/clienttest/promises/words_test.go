package promises_test

import "github.com/onceward/onceward/internal/oncetest"

// These names stand for those of package oncetest, which documents them.
type (
	failing     = oncetest.Failing
	line        = oncetest.Line
	option      = oncetest.Option
	outcome     = oncetest.Outcome
	process     = oncetest.Process
	reply       = oncetest.Reply
	sent        = oncetest.Sent
	watchedBody = oncetest.WatchedBody
)

const (
	between   = oncetest.Between
	chargeURL = oncetest.ChargeURL
	invoice   = oncetest.Invoice
	ownURL    = oncetest.OwnURL
	paid      = oncetest.Paid
)

var (
	brokenBody          = oncetest.BrokenBody
	atMostOneEffectEach = oncetest.AtMostOneEffectEach
	bank                = oncetest.Bank
	body                = oncetest.Body
	byField             = oncetest.ByField
	calling             = oncetest.Calling
	carrying            = oncetest.Carrying
	charging            = oncetest.Charging
	cuts                = oncetest.Cuts
	doing               = oncetest.Doing
	each                = oncetest.Each
	errDiskFull         = oncetest.ErrDiskFull
	errReset            = oncetest.ErrReset
	hangs               = oncetest.Hangs
	inBox               = oncetest.InBox
	journals            = oncetest.Journals
	keyed               = oncetest.Keyed
	leftInFlight        = oncetest.LeftInFlight
	loses               = oncetest.Loses
	named               = oncetest.Named
	noGuard             = oncetest.NoGuard
	noKey               = oncetest.NoKey
	noRetention         = oncetest.NoRetention
	onDisk              = oncetest.OnDisk
	once                = oncetest.Once
	openSQLite          = oncetest.OpenSQLite
	own                 = oncetest.Own
	pass                = oncetest.Pass
	pays                = oncetest.Pays
	quick               = oncetest.Quick
	refuses             = oncetest.Refuses
	remembers           = oncetest.Remembers
	repeated            = oncetest.Repeated
	says                = oncetest.Says
	seesTheClock        = oncetest.SeesTheClock
	serving             = oncetest.Serving
	setClock            = oncetest.SetClock
	start               = oncetest.Start
	takes               = oncetest.Takes
	to                  = oncetest.To
	virtual             = oncetest.Virtual
	with                = oncetest.With
	wrongKey            = oncetest.WrongKey
)
