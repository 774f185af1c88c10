package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/providers"
)

// An invoice is charged once though the answer is lost and the program starts again.
func TestInvoiceIsChargedOnce(t *testing.T) {
	box := newBox()
	defer box.Close()
	var out strings.Builder
	require.NoError(t, run(t.Context(), api{provider: box.Provider(), url: box.URL, key: "sk_test_box"}, &out))

	assert.Contains(t, out.String(), "charges that Stripe has for the invoice: 1\n")
	assert.NotContains(t, out.String(), "sk_test_box")
	keys := regexp.MustCompile(`, key (\S+),`).FindAllStringSubmatch(out.String(), -1)
	require.Len(t, keys, 3)
	assert.Equal(t, keys[0], keys[1])
	assert.Equal(t, keys[0], keys[2])
	assert.Equal(t, 1, strings.Count(out.String(), "gives way to the journal's"))
	require.Len(t, box.Effects(), 1)
	assert.Equal(t, keys[0][1], box.Effects()[0].Key)
	assert.Equal(t, 3, box.Requests(), "two for the charge, one that counts the charges")
}

// A key that moves money is refused and not shown.
func TestKeyThatMovesMoneyIsRefused(t *testing.T) {
	for _, key := range []string{"", "sk_live_secret", "rk_live_secret"} {
		err := run(t.Context(), api{provider: providers.Stripe(), url: "http://127.0.0.1:0", key: key}, t.Output())
		require.ErrorContains(t, err, "must hold a test key")
		assert.NotContains(t, err.Error(), "secret")
	}
}
