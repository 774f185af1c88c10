package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A load is measured beside pending operations, over several providers, and drawn with a line for each figure.
func TestGrowthIsMeasuredAndDrawn(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, plant(t.Context(), folder, 0, 30, 3))
	f, err := measure(t.Context(), load{Folder: folder, Providers: 3, Operations: 20, Callers: 4})
	require.NoError(t, err)
	assert.Positive(t, f.P50)
	assert.LessOrEqual(t, f.P50, f.P99)
	assert.Positive(t, f.Allocated)

	var b bytes.Buffer
	draw(&b, series{Name: "pending operations", Sizes: []int{30, 60}, Figures: []figures{f, f}})
	assert.Equal(t, 4, strings.Count(b.String(), "<polyline"))
	assert.Contains(t, b.String(), "pending operations")
}

func TestSizesAreNumbers(t *testing.T) {
	got, err := sizes("1,10")
	require.NoError(t, err)
	assert.Equal(t, []int{1, 10}, got)
	for _, list := range []string{"", "1,", "0", "x"} {
		_, err := sizes(list)
		assert.ErrorContains(t, err, "is no number", list)
	}
}
