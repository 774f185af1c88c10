package onceward_test

import (
	"bytes"
	"fmt"
	"log"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
)

func TestTraceTellsWhatHappensToAnOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		say := func(format string, args ...any) { told = append(told, fmt.Sprintf(format, args...)) }
		l := (&line{}).Then(refuses(), loses(), limited, cuts(200, paid))
		p := start(t, l, onceward.Config{Trace: &onceward.Trace{
			Begun: func(op onceward.Operation) { say("begun %s", op.ID) },
			Attempted: func(op onceward.Operation, a onceward.Attempt) {
				say("attempt %d: status %d, %v, unsent %t, error %t", a.Number, a.Status, a.Verdict, a.Unsent, a.Err != nil)
			},
			Delayed: func(_ onceward.Operation, d time.Duration) { say("delayed %t", d > 0) },
			Left: func(op onceward.Operation) {
				say("left %s, replayed %t, attempts %d, answer %t", op.State, op.Replayed, op.Attempts, op.Answer != nil)
			},
		}})
		require.NoError(t, p.Ask(named(t, "invoice-1/charge")).Err)
		require.NoError(t, p.Ask(named(t, "invoice-1/charge")).Err)
		assert.Equal(t, []string{
			"begun invoice-1/charge",
			"attempt 1: status 0, verdict(0), unsent true, error true", "delayed true",
			"attempt 2: status 0, verdict(0), unsent false, error true", "delayed true",
			"attempt 3: status 429, not executed, unsent false, error false", "delayed true",
			"attempt 4: status 200, final, unsent false, error false", "delayed true",
			"attempt 5: status 200, final, unsent false, error false",
			"left completed, replayed false, attempts 5, answer false",
			"left completed, replayed true, attempts 5, answer false",
		}, told)
	})
}

func TestItIsSilentByDefault(t *testing.T) {
	var out bytes.Buffer
	before, flags := slog.Default(), log.Flags()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	log.SetOutput(&out)
	defer func() {
		slog.SetDefault(before)
		log.SetFlags(flags)
	}()
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Then(loses(), frozen)
		p := start(t, l, onceward.Config{})
		require.Equal(t, 500, p.Ask(named(t, "invoice-1/charge")).Status)
		_, err := p.Resume(t.Context())
		require.NoError(t, err)
	})
	assert.Empty(t, out.String())
}
