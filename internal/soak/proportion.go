package soak

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/sample"
)

// InProportion does the work for n things. In the soak it fails if the work takes more than four times as long as
// sixteen times the work for a sixteenth of the size. A busy machine gets ten tries. Outside the soak no time is
// compared, and the work is done for a sixteenth of n unless every case runs.
func InProportion(t *testing.T, n int, do func(n int), what string) {
	t.Helper()
	if !On() {
		do(sample.Size(n/16, n))
		return
	}
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
