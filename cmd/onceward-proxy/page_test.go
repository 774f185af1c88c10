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

// block returns a language's first block in docs/proxy.md with this beginning.
func block(t *testing.T, language, begins string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "proxy.md"))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(page), "\n```"+language+"\n"+begins)
	require.True(t, found)
	text, _, _ := strings.Cut(rest, "\n```\n")
	return begins + text
}

// The page's file, its Node program and its snippets work as they stand: all print one charge. Only the upstream is another.
func TestThePagesProgram(t *testing.T) {
	node(t, "") // or it skips
	s := open(t, providertest.Objects("ch_"))
	s.file, s.socket = "proxy.json", filepath.Join(s.dir, "stripe.sock")
	for name, text := range map[string]string{
		"proxy.json":   strings.Replace(block(t, "json", ""), "https://api.stripe.com", s.URL, 1),
		"charge.mjs":   block(t, "js", ""),
		"proxy.secret": "a secret of 16 bytes or more\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600))
	}
	snippets := []struct {
		language    string
		needs, runs []string
		text        string
	}{
		{"bash", []string{"-c", "curl -V"}, []string{"bash", "-e"}, block(t, "text", "curl")},
		{"python", []string{"-c", "import httpx"}, []string{"/usr/bin/python3", "-"}, block(t, "python", "")},
		{"php", []string{"-r", "curl_version();"}, []string{"php"}, block(t, "php", "")},
	}
	require.NoError(t, os.Symlink(filepath.Join(os.Getenv("ONCEWARD_NODE"), "node_modules"), filepath.Join(s.dir, "node_modules")))
	t.Setenv("STRIPE_SECRET_KEY", apiKey)
	t.Chdir(s.dir)
	s.start(t, "--new")
	for range 2 {
		run := exec.CommandContext(t.Context(), "node", "charge.mjs")
		run.Stderr = os.Stderr
		out, err := run.Output()
		require.NoError(t, err)
		require.Len(t, s.Effects(), 1)
		assert.Equal(t, s.Effects()[0].Object+"\n", string(out))
	}
	for _, one := range snippets {
		t.Run(one.language, func(t *testing.T) {
			if err := exec.Command(one.runs[0], one.needs...).Run(); err != nil {
				t.Skipf("%s %q fails: %v", one.runs[0], one.needs, err)
			}
			run := exec.CommandContext(t.Context(), one.runs[0], one.runs[1:]...)
			run.Stdin, run.Stderr = strings.NewReader(one.text), os.Stderr
			out, err := run.Output()
			require.NoError(t, err)
			assert.Contains(t, string(out), s.Effects()[0].Object)
			assert.Len(t, s.Effects(), 1)
		})
	}
}
