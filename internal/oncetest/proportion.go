package oncetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// InProportion fails where do takes more than four times as long for n things as for a
// sixteenth of them sixteen times. Both are done again until it does not: what a busy
// machine takes from one it hardly takes from that one each time.
func InProportion(t *testing.T, n int, do func(n int), what string) {
	t.Helper()
	inProportion := false
	for again := 0; again < 10 && !inProportion; again++ {
		began := time.Now()
		for range 16 {
			do(n / 16)
		}
		few := time.Since(began)
		began = time.Now()
		do(n)
		inProportion = time.Since(began) <= 4*few
	}
	assert.True(t, inProportion, what)
}
