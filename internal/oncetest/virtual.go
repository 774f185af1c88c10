package oncetest

import (
	"testing"
	"testing/synctest"
	"time"
)

// Virtual runs a subtest in virtual time.
func Virtual(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// Pass lets virtual time pass.
func Pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
