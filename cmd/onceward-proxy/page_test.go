package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/providers/providertest"
)

// block returns the first block of a language in docs/proxy.md.
func block(t *testing.T, language string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "proxy.md"))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(page), "\n```"+language+"\n")
	require.True(t, found)
	text, _, _ := strings.Cut(rest, "\n```\n")
	return text
}

// The page's file and its Node program work as they stand: two runs print one charge. Only the upstream is another.
func TestThePagesProgram(t *testing.T) {
	node(t, "") // or it skips
	s := open(t, providertest.Objects("ch_"))
	s.file, s.socket = "proxy.json", filepath.Join(s.dir, "stripe.sock")
	for name, text := range map[string]string{
		"proxy.json":   strings.Replace(block(t, "json"), "https://api.stripe.com", s.URL, 1),
		"charge.mjs":   block(t, "js"),
		"proxy.secret": "a secret of 16 bytes or more\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600))
	}
	require.NoError(t, os.Symlink(filepath.Join(os.Getenv("ONCEWARD_NODE"), "node_modules"), filepath.Join(s.dir, "node_modules")))
	t.Setenv("STRIPE_SECRET_KEY", apiKey)
	t.Chdir(s.dir)
	s.start(t, "--new")
	var printed []string
	for range 2 {
		run := exec.CommandContext(t.Context(), "node", "charge.mjs")
		run.Stderr = os.Stderr
		out, err := run.Output()
		require.NoError(t, err)
		printed = append(printed, string(out))
	}
	assert.Equal(t, printed[0], printed[1])
	require.Len(t, s.Effects(), 1)
	assert.Equal(t, s.Effects()[0].Object+"\n", printed[0])
}
