package onceward_test

import (
	"bytes"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
)

// A line says of an operation what it is.
func TestLogTellsOfAnOperation(t *testing.T) {
	var logged bytes.Buffer
	p := start(t, (&line{}).Then(refuses()), onceward.Config{Backoff: once, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	require.ErrorIs(t, p.Ask(onceward.WithScope(named(t, "order-1"), "shop-1")).Err, onceward.ErrPending)
	for _, part := range []string{"id=order-1", `request="POST ` + chargeURL + `"`, "scope=shop-1", "provider=stripe", `endpoint="POST /v1/charges"`, "state=pending", "generation=0", "claim=1"} {
		assert.Contains(t, logged.String(), "operation."+part)
	}
	assert.NotContains(t, logged.String(), "inbound_key", "it is no step of an inbound request")
}

// The keys of the log are promised, and each is explained.
func TestLogEventsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("docs/runbook.md")
	require.NoError(t, err)
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+\\.[a-z_]+)` \\| [a-z, ]+ \\|").FindAllStringSubmatch(string(text), -1) {
		documented = append(documented, row[1])
	}
	assert.ElementsMatch(t, documented, onceward.LogEvents())
	assert.Equal(t, slices.Compact(slices.Sorted(slices.Values(documented))), slices.Sorted(slices.Values(documented)))

	// No line of the log is without one: all are written by note and say.
	files, err := os.ReadDir(".")
	require.NoError(t, err)
	direct := regexp.MustCompile(`\.log\.(Debug|Info|Warn|Error|Log|LogAttrs)(Context)?\(`)
	for _, f := range files {
		if name := f.Name(); regexp.MustCompile(`\.go$`).MatchString(name) && !regexp.MustCompile(`_test\.go$`).MatchString(name) && name != "logging.go" {
			code, err := os.ReadFile(name)
			require.NoError(t, err)
			assert.False(t, direct.Match(code), "%s logs by itself", name)
		}
	}
}
