//go:build !race

package benchmarks

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal/memory"
)

// allocations is how many allocations an operation over the journal in memory makes beyond a plain
// http.Client for the same request. A change that makes more of them raises this constant in the open, and a change
// that makes fewer lowers it. About 90 of them encode and commit rows, which the journal in memory has since it shares the
// code of databases. Three of them mark the request for a transport that is not net/http's own.
//
// withReconcile is the number with Config.Reconcile and Config.Authorize. The client then also records the values that
// look-ups compare, and knows the credential's account.
const (
	allocations   = 160
	withReconcile = 291
)

// A child process counts without the collector, which would empty the pools.
func TestAllocationsOfAnOperation(t *testing.T) {
	const child = "ONCEWARD_COUNTS_ALLOCATIONS"
	if os.Getenv(child) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestAllocationsOfAnOperation$", "-test.v")
		cmd.Env = append(os.Environ(), child+"=1", "GOGC=off")
		output, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", output)
		return
	}
	plain := allocationsOf(t, &http.Client{Transport: answering{}})
	page, err := os.ReadFile("../docs/measurements.md")
	require.NoError(t, err)
	assert.True(t, strings.Contains(string(page), fmt.Sprintf("makes %d allocations beyond a plain client's", allocations)), "docs/measurements.md has another number")
	for _, of := range []struct {
		want int
		more func(*onceward.Config)
	}{
		{allocations, func(*onceward.Config) {}},
		{withReconcile, func(cfg *onceward.Config) {
			cfg.Reconcile = &onceward.Reconcile{}
			cfg.Authorize = func(r *http.Request) error {
				r.Header.Set("Authorization", "Bearer sk_test_1")
				return nil
			}
		}},
	} {
		j := memory.New()
		cfg := config(j)
		of.more(&cfg)
		c, err := onceward.New(cfg)
		require.NoError(t, err)
		assert.EqualValues(t, of.want, allocationsOf(t, c.HTTPClient())-plain)
		require.NoError(t, c.Shutdown(t.Context()))
		require.NoError(t, j.Close())
	}
}

// allocationsOf returns one charge's allocations. A journal's maps grow now and then: the average is rounded down.
func allocationsOf(t *testing.T, hc *http.Client) float64 {
	payload, n := body(), 1000 // all numbers have as many digits
	return testing.AllocsPerRun(1000, func() {
		if err := charge(hc, "invoice-"+strconv.Itoa(n), payload); err != nil {
			t.Fatal(err)
		}
		n++
	})
}
