package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// node returns a run for a program below testdata/node. Its SDKs lie in the folder that ONCEWARD_NODE names.
func node(t *testing.T, program string, args ...string) *exec.Cmd {
	t.Helper()
	if os.Getenv("ONCEWARD_NODE") == "" {
		t.Skip("ONCEWARD_NODE names no folder with the SDKs: copy testdata/node to a new folder, and run npm ci --ignore-scripts there")
	}
	cmd := exec.CommandContext(t.Context(), "node", append([]string{filepath.Join("testdata", "node", program)}, args...)...)
	cmd.Stderr = os.Stderr
	return cmd
}

// refusals are the answers of package proxy by flavour, from that package's golden file.
func refusals(t *testing.T) map[string][]refusal {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "proxy", "testdata", "problems.txt"))
	require.NoError(t, err)
	list := map[string][]refusal{}
	for lines := bufio.NewScanner(strings.NewReader(string(text))); lines.Scan(); {
		var flavour string
		var r refusal
		_, err := fmt.Sscan(lines.Text(), &flavour, &r.status)
		require.NoError(t, err)
		_, r.body, _ = strings.Cut(lines.Text(), fmt.Sprint(" ", r.status, " "))
		_, code, _ := strings.Cut(r.body, `"onceward_`)
		code, _, _ = strings.Cut(code, `"`)
		r.name = strings.TrimSpace(fmt.Sprint(r.status, " ", code))
		list[flavour] = append(list[flavour], r)
	}
	return list
}

type refusal struct {
	status     int
	name, body string
}

// Each SDK takes each refusal for a failure, and repeats the call no more than it is known to. The golden file has what
// each makes of each. Stripe's SDK takes none for a decline.
func TestSDKsTakeEachRefusalForAFailure(t *testing.T) {
	list := refusals(t)
	var mu sync.Mutex
	var current refusal
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		var sdk string
		var n int
		_, err := fmt.Sscanf(strings.ReplaceAll(r.URL.Path, "/", " "), " case %s %d", &sdk, &n)
		switch {
		case err == nil:
			flavour, own := list[sdk]
			if !own {
				flavour = list["ietf"]
			}
			current, requests = refusal{}, 0
			if n < len(flavour) {
				current = flavour[n]
			}
			_ = json.NewEncoder(w).Encode(map[string]string{"problem": current.name})
		case r.URL.Path == "/requests":
			_ = json.NewEncoder(w).Encode(map[string]int{"requests": requests})
		case r.URL.Path == "/v1/oauth2/token":
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"access_token":"onceward_1","token_type":"Bearer","expires_in":28800}`)
		default:
			requests++
			media := "application/json"
			if strings.HasPrefix(current.body, `{"type"`) {
				media = "application/problem+json"
			}
			for name, value := range map[string]string{"Content-Type": media, "Stripe-Should-Retry": "false", "X-Should-Retry": "false", "Cache-Control": "no-store", "Retry-After": "1"} {
				w.Header().Set(name, value)
			}
			w.WriteHeader(current.status)
			_, _ = io.WriteString(w, current.body)
		}
	}))
	defer server.Close()
	at, err := url.Parse(server.URL)
	require.NoError(t, err)
	got, err := node(t, "sdks.mjs", at.Port()).Output()
	require.NoError(t, err)
	assert.NotContains(t, string(got), "RESOLVES")
	assert.NotContains(t, string(got), "CardError")
	golden := filepath.Join("testdata", "sdks.txt")
	if os.Getenv("ONCEWARD_GOLDEN") == "write" {
		require.NoError(t, os.WriteFile(golden, got, 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got), "ONCEWARD_GOLDEN=write writes it anew")
}
