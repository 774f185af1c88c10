package main

import (
	"bufio"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/planted"
)

// ui shows the journal only under its secret address, refuses changes, and ends without an error when it is
// interrupted.
func TestUI(t *testing.T) {
	path, _ := journalWith(t)
	cmd := exec.Command(binary, "-j", path, "ui")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	at, err := url.Parse(strings.TrimSpace(line))
	require.NoError(t, err)
	get := func(u string) (int, string) {
		resp, err := http.Get(u)
		require.NoError(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(text)
	}
	code, text := get(at.String() + "operations")
	assert.Equal(t, http.StatusOK, code)
	assert.Contains(t, text, planted.Unknown)
	for _, other := range []string{"/", "/operations", "/AAAAAAAAAAAAAAAAAAAAAAAAAA/", "/console.css"} {
		code, text := get(at.Scheme + "://" + at.Host + other)
		assert.Equal(t, http.StatusNotFound, code)
		assert.NotContains(t, text, "invoice")
	}
	resp, err := http.PostForm(at.String()+"resolve", url.Values{"h": {"3"}, "as": {"executed"}, "because": {"x"}, "generation": {"0"}, "claim": {"1"}})
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, http.StatusForbidden, resp.StatusCode)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	assert.NoError(t, cmd.Wait())
}

// ui listens on this machine's addresses only.
func TestUIListensOnThisMachineOnly(t *testing.T) {
	path, _ := journalWith(t)
	for _, address := range []string{"0.0.0.0:0", ":8080", "example.com:80", "[::]:0", "127.0.0.1"} {
		assert.Equal(t, exitUsage, runs(t, "-j", path, "ui", "--listen", address).code, address)
	}
}
