package main

import (
	"bytes"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The storm runs itself as the service: here, that is the test binary.
func TestMain(m *testing.M) {
	if os.Getenv(dispatchVariable) != "" {
		main()
	}
	os.Exit(m.Run())
}

func TestEveryRideIsFinishedOnce(t *testing.T) {
	var out, errs bytes.Buffer
	status := run(t.Context(), []string{"-rides", "12", "-kills", "4"}, &out, &errs)
	require.Zero(t, status, "%s%s", &out, &errs)
	for _, row := range []string{
		`rider-\d\d  started → number → write → book → charge → notify → finished`,
		`rider-\d\d  started → number → write → book → undone book → given up`,
		`rides +12`,
		`declined, and undone +2`,
		`duplicates +0`,
		`missing +0`,
		`kills +[1-4]`,
	} {
		assert.Regexp(t, `(?m)^`+row+`$`, out.String())
	}
}

func TestFlagsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, args := range [][]string{{"-rides", "0"}, {"-kills", "-1"}, {"-unheard-of"}, {"now"}} {
		var errs bytes.Buffer
		assert.Equal(t, 2, run(t.Context(), args, io.Discard, &errs), "%q", args)
		assert.NotEmpty(t, errs.String(), "%q", args)
	}
}
