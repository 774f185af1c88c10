package sidecar_test

import (
	"fmt"
	"hash/crc32"
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
		"onceward-sidecar 1  42\n", "onceward-sidecar 1 A B 42\n", "onceward-sidecar 2 A 42 0123456789abcdef 4 3\n",
		"onceward-sidecar 2 A 42 empty 1 0\n", "onceward-sidecar 2 A 42 empty 3 4\n", "onceward-sidecar 2 A 42\n"} {
		f.Add(text)
	}
	for _, line := range []string{"onceward-sidecar 2 A 42 0123456789abcdef 4 3", "onceward-sidecar 2 A 42 empty 3 4"} {
		f.Add(fmt.Sprintf("%s %08x\n", line, crc32.Checksum([]byte(line), crc32.MakeTable(crc32.Castagnoli))))
	}
	form := regexp.MustCompile(`\Aonceward-sidecar (1 [^ ]+ \d+|2 [^ ]+ \d+ [^ ]+ \d+ \d+ [0-9a-f]{8})\n\z`)
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
