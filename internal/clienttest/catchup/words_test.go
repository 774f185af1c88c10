package catchup_test

import "github.com/onceward/onceward/internal/oncetest"

// These names stand for those of package oncetest, which documents them.
type teller = oncetest.Teller

var (
	answers  = oncetest.Answers
	another  = oncetest.Another
	bank     = oncetest.Bank
	bearer   = oncetest.Bearer
	onDisk   = oncetest.OnDisk
	openBank = oncetest.OpenBank
	pass     = oncetest.Pass
	unlooked = oncetest.Unlooked
	with     = oncetest.With
	virtual  = oncetest.Virtual
)
