package onceward_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/core"
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
	var events []string
	for _, event := range core.LogEvents {
		events = append(events, string(event))
	}
	assert.ElementsMatch(t, documented, events)
	assert.Equal(t, slices.Compact(slices.Sorted(slices.Values(documented))), slices.Sorted(slices.Values(documented)))

	// No line of the log is without one: all are written by Core.Note and Core.Say.
	direct := regexp.MustCompile(`\b[lL]og(ger)?\.(Debug|Info|Warn|Error|Log|LogAttrs)(Context)?\(`)
	for _, folder := range []string{".", "internal/background", "internal/core", "internal/delivery", "internal/engine", "internal/naming", "internal/reconcile", "internal/throttle", "internal/wire"} {
		for _, name := range goFiles(t, folder) {
			code, err := os.ReadFile(name)
			require.NoError(t, err)
			assert.Equal(t, filepath.ToSlash(name) == "internal/core/observer.go", direct.Match(code), "%s logs by itself", name)
		}
	}
}
