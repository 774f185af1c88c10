package sidecar_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/journal/sqlite/internal/sidecar"
)

// FuzzSidecar reads a sidecar as it was written, or refuses it.
func FuzzSidecar(f *testing.F) {
	good := "onceward-sidecar 1 ABCDEFGHIJKLMNOPQRSTUVWXYZ 42\n"
	for _, text := range []string{good, "", "\n", good + good, good[:len(good)-1], strings.Replace(good, "42", "-42", 1),
		strings.Replace(good, "42", "042", 1), strings.Replace(good, " 1 ", " 2 ", 1), strings.Replace(good, "42", "99999999999999999999", 1),
		"onceward-sidecar 1  42\n", "onceward-sidecar 1 A B 42\n"} {
		f.Add(text)
	}
	form := regexp.MustCompile(`\Aonceward-sidecar 1 [^ ]+ \d+\n\z`)
	f.Fuzz(func(t *testing.T, text string) {
		content, err := sidecar.Parse(text)
		if err != nil {
			assert.NotEqual(t, good, text)
			return
		}
		assert.Equal(t, text, content.String())
		assert.Regexp(t, form, text)
	})
}
