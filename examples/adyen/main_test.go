package main

import (
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/providers/providertest"
)

// An invoice is paid once through a transient error, a payment in flight and a restart.
func TestInvoiceIsPaidOnce(t *testing.T) { synctest.Test(t, invoiceIsPaidOnce) }

func invoiceIsPaidOnce(t *testing.T) {
	b := newBox(providertest.NewUnstartedServerInMemory)
	defer b.Close()
	var out strings.Builder
	require.NoError(t, run(t.Context(), b, &out))

	text := out.String()
	assert.Contains(t, text, "a key of 65 characters is refused here; requests at Adyen: 0\n")
	assert.Contains(t, text, "503, which for Adyen says: not executed\n")
	assert.Contains(t, text, "no answer: the attempt took longer than Config.AttemptTimeout")
	assert.Regexp(t, `(409|422), which for Adyen says: in flight\n`, text)
	assert.Contains(t, text, "payments that Adyen has made: 1\n")
	answers := regexp.MustCompile(`invoice-991/payment: 200 OK, key (\S+), attempts \d+, recorded before: (true|false)\n  (.*)\n`).FindAllStringSubmatch(text, -1)
	require.Len(t, answers, 2)
	assert.Equal(t, answers[0][1], answers[1][1], "the key")
	assert.Equal(t, "true", answers[1][2])
	assert.Equal(t, answers[0][3], answers[1][3], "the answer")

	effects := b.Effects()
	require.Len(t, effects, 1)
	assert.Equal(t, answers[0][1], effects[0].Key)
	assert.LessOrEqual(t, len(effects[0].Key), 64)
}
