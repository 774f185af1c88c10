package reconcile_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers/providertest"
)

// Two events show two objects with the operation's key. A person has to decide, and finds the operation on the list
// whatever asks for it meanwhile.
func TestDisputedPaymentStaysOnTheListUntilAPersonDecides(t *testing.T) {
	for name, asks := range map[string]func(l *oncetest.Teller){
		"its caller": func(l *oncetest.Teller) { require.ErrorIs(l.T, l.Pays("order-7").Err, onceward.ErrOutcomeUnknown) },
		"an operator": func(l *oncetest.Teller) {
			_, err := l.Reconcile(l.T.Context(), onceward.Ref{ID: "order-7"})
			assert.ErrorIs(l.T, err, onceward.ErrOutcomeUnknown)
		},
		"a thin event": func(l *oncetest.Teller) {
			_, err := l.RecordEvent(l.T.Context(), "bank", l.Happened("evt_9", "payment.unknown_to_the_table", l.Stands("order-7").Key, "obj_1", time.Now()))
			require.NoError(l.T, err)
		},
	} {
		virtual(t, name, func(t *testing.T) {
			l := oncetest.AtBank(t, onceward.Config{Journal: memory.New()})
			l.Box.Script(providertest.DropBefore())
			isDown := false
			l.Fakes(func(r *http.Request) *http.Response {
				switch {
				case r.Method == http.MethodPost:
					<-time.After(10 * time.Second)
				case isDown:
					return oncetest.Answers(http.StatusBadGateway, `<html>bad gateway</html>`)
				}
				return nil
			})
			paid := make(chan oncetest.Outcome, 1)
			go func() { paid <- l.Pays("order-7") }()
			oncetest.Pass(2 * time.Second)
			for i := range 2 {
				_, err := l.RecordEvent(t.Context(), "bank", l.Happened(fmt.Sprint("evt_", i), "payment.succeeded", l.Stands("order-7").Key, fmt.Sprint("obj_", i), time.Now()))
				require.NoError(t, err)
			}
			<-paid
			isDown = true
			why := l.Stands("order-7").Attention
			require.Contains(t, why, "it may have taken effect twice")
			for range 3 {
				l.Runs(6 * time.Hour)
				asks(l)
				assert.Equal(t, []string{"order-7"}, l.NeedsAttention())
				assert.Equal(t, why, l.Stands("order-7").Attention)
			}
			assert.Len(t, l.Told(), 1, "OnUnknown gets it once")

			l.Says("order-7", onceward.Executed)
			assert.Empty(t, l.NeedsAttention())
			assert.Equal(t, onceward.StateCompleted, l.Stands("order-7").State)
		})
	}
}
