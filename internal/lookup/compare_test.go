package lookup

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/providers"
)

func TestComparisons(t *testing.T) {
	for _, tc := range []struct {
		as       providers.Comparison
		is, want string
		same     bool
	}{
		{providers.Exactly, "a", "a", true},
		{providers.Exactly, "a", "A", false},
		{providers.Exactly, "é", "e\u0301", false},
		{providers.Exactly, "", "", false},
		{providers.AnyCase, "uSd", "USD", true},
		{providers.AnyCase, "abzABZ[`", "ABZabz[`", true},
		{providers.AnyCase, "@[", "`{", false},
		{providers.AsDecimal, "1e64", "10e63", true},
		{providers.AsDecimal, "1e65", "1e65", false},
		{providers.AsDecimal, "1e-64", "0.1e-63", true},
		{providers.AsDecimal, "1e", "1e", false},
		{providers.AsDecimal, "0", "0", true},
		{providers.AnyCase, "K", "\u212a", false}, // the Kelvin sign, a K in other cases
		{providers.AnyCase, "ſ", "s", false},
		{providers.AsDecimal, "10", "10.00", true},
		{providers.AsDecimal, "1e1", "10", true},
		{providers.AsDecimal, "0.10", "0.1", true},
		{providers.AsDecimal, "0", "-0.00", true},
		{providers.AsDecimal, "1.234", "1.2340", true}, // a dinar has 1000 fils
		{providers.AsDecimal, "10", "100", false},
		{providers.AsDecimal, "10", "1", false},
		{providers.AsDecimal, "0.01", "0.1", false},
		{providers.AsDecimal, "10", "-10", false},
		{providers.AsDecimal, "10.001", "10.00", false},
		{providers.AsDecimal, "010", "10", false},
		{providers.AsDecimal, "010", "010", false},
		{providers.AsDecimal, "1,000", "1,000", false},
		{providers.AsDecimal, "+1", "+1", false},
		{providers.AsDecimal, ".5", ".5", false},
		{providers.AsDecimal, "5.", "5.", false},
		{providers.AsDecimal, "0x1", "0x1", false},
		{providers.AsDecimal, "1e999999999", "1e999999999", false},
		{providers.AsDecimal, strings.Repeat("1", 65), strings.Repeat("1", 65), false}, // too long for an amount
		{providers.AsDecimal, "NaN", "NaN", false},
		{providers.AsDecimal, "12345678901234567890.12", "12345678901234567890.1200", true},
		{providers.AsDecimal, "12345678901234567890.12", "12345678901234567890.13", false},
	} {
		assert.Equal(t, tc.same, equal(tc.as, tc.is, tc.want), "%s %q %q", tc.as, tc.is, tc.want)
		assert.Equal(t, tc.same, equal(tc.as, tc.want, tc.is), "%s %q %q", tc.as, tc.want, tc.is)
	}
}

func TestTimesOfObjects(t *testing.T) {
	want := time.Date(2026, 11, 22, 12, 0, 5, 0, time.UTC)
	for _, text := range []string{
		"1795348805", "2026-11-22T12:00:05Z", "2026-11-22T13:00:05+01:00", "2026-11-22T13:00:05+0100", "2026-11-22 12:00:05", "2026-11-22T12:00:05.000Z", "1795348805.0", "1795348805000",
	} {
		got, ok := TimeOf(text)
		assert.True(t, ok, text)
		assert.True(t, want.Equal(got), "%s: %s", text, got)
	}
	for _, text := range []string{"", "0", "1795348805000000", "2026-11-22", "12:00", "NaN", "-5", "soon"} {
		_, ok := TimeOf(text)
		assert.False(t, ok, text)
	}
}
