package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each deviation from the expected result fails the program.
func TestVerdict(t *testing.T) {
	o := options{orders: 10, kills: 3}
	good := left{effects: 10, marked: 10, kills: 3}
	require.NoError(t, good.verdict(o))
	for what, spoil := range map[string]func(*left){
		"beyond the first":      func(l *left) { l.duplicates++ },
		"without an effect":     func(l *left) { l.lost++ },
		"not finished":          func(l *left) { l.unfinished++ },
		"unknown":               func(l *left) { l.unknown++ },
		"not marked as charged": func(l *left) { l.marked-- },
		"did not take place":    func(l *left) { l.kills-- },
	} {
		bad := good
		spoil(&bad)
		require.ErrorContains(t, bad.verdict(o), what)
	}
}

func TestFlags(t *testing.T) {
	o, err := parse([]string{"-payers", "5", "-kills", "0"}, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, 5, o.payers)
	assert.Equal(t, 200, o.orders)
	for _, wrong := range [][]string{{"-payers", "0"}, {"-orders", "0"}, {"-kills", "-1"}, {"further"}} {
		assert.Equal(t, 2, run(t.Context(), wrong, io.Discard, io.Discard))
	}
}
