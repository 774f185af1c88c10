package shown_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/shown"
)

// Characters that a terminal or a reader could take for something else are escaped, and no others.
func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"":                       "",
		"invoice-1/charge":       "invoice-1/charge",
		"Grüße, 発注 №7":           "Grüße, 発注 №7",
		"a\x1b[31mb\u009b2J":     `a\u001b[31mb\u009b2J`,
		"\u202egnp.exe\u202c":    `\u202egnp.exe\u202c`,
		"zero\u200bwidth\ufeff":  `zero\u200bwidth\ufeff`,
		"line\nbreak\u2028tab\t": `line\u000abreak\u2028tab\u0009`,
		`back\slash`:             `back\\slash`,
		"\xff\xfe":               `\xff\xfe`,
		"\U000e0041":             `\U000e0041`,
	} {
		assert.Equal(t, want, shown.Text(in))
	}
	assert.Equal(t, "abcd…", shown.Short("abcdefgh", 5))
	assert.Equal(t, `\\u0000`, shown.Short(shown.Text("\x00"), 20), "what is quoted is clipped, and not quoted again")
	assert.Equal(t, `\u0000`, shown.Clip(shown.Text("\x00"), 20))
	assert.Equal(t, "12345678…", shown.Key("123456789012345678901234"))
	assert.Equal(t, "1234…", shown.Key("12345678"))
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 ms", 90 * time.Second: "1 min", 59 * time.Second: "59 s", time.Hour: "1 h", 23*time.Hour + 59*time.Minute: "23 h 59 min",
		24 * time.Hour: "1 d", 49 * time.Hour: "2 d 1 h", -time.Minute: "-1 min", math.MinInt64: "-106751 d 23 h",
	} {
		assert.Equal(t, want, shown.Duration(d))
	}
}
