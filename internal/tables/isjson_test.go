package tables_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/tables"
)

// FuzzIsJSON compares it with the standard library, which also takes deeper texts.
func FuzzIsJSON(f *testing.F) {
	for _, text := range []string{
		"", " ", "{}", " [1, 2.5e-3, -0, true, false, null] \n", `{"a":{"b":["c","\u00e9\n"]}}`, `{"id":"ch_1"}{"id":"ch_1"}`,
		"01", "1.", "1e", "-", "+1", "tru", `"`, `"\x"`, `"\u12g4"`, "\"\x01\"", "[1,]", "[,1]", `{"a"}`, `{"a":}`, `{"a":1,}`, `{a:1}`, "{", "[",
		strings.Repeat("[", 150) + strings.Repeat("]", 150), "\ufeff{}", "\xff", "\"\xff\"",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if valid := json.Valid(text); valid != tables.IsJSON(text) {
			assert.True(t, valid && strings.Count(string(text), "[")+strings.Count(string(text), "{") > 200, "%q", text)
		}
	})
}
