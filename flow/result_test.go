package flow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
)

// posting makes a one-step flow that charges and returns a T.
func posting[T any](p *process, t *testing.T) error {
	t.Helper()
	return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
		_, err := flow.Step(ctx, "charge", func(ctx context.Context) (result T, err error) {
			_, err = p.Post(ctx, "charge")
			return result, err
		})
		return err
	})
}

// A step is refused before it runs if the journal could not give back a result of its type.
func TestUnreadableResultIsRefused(t *testing.T) {
	type inside struct {
		Parts []struct{ Why error }
	}
	for name, run := range map[string]func(*process, *testing.T) error{
		"any":                      posting[any],
		"an error":                 posting[error],
		"another interface":        posting[io.Reader],
		"a pointer to one":         posting[*error],
		"a list of them":           posting[[]fmt.Stringer],
		"a map of them":            posting[map[string]error],
		"one within":               posting[inside],
		"a function":               posting[func()],
		"a channel in a struct":    posting[struct{ C chan int }],
		"a number that JSON lacks": posting[complex128],
	} {
		virtual(t, name, func(t *testing.T) {
			l := &line{}
			p := startFlows(t, l, onceward.Config{})
			err := run(p, t)
			require.ErrorIs(t, err, flow.ErrStep)
			assert.ErrorContains(t, err, "step charge")
			assert.Empty(t, l.Sent())
			assert.Empty(t, p.flow("order-991").Steps)
		})
	}
}

func TestAStepReturnsWhatJSONGivesBack(t *testing.T) {
	type tree struct {
		Left, Right *tree
		Any         any
		Raw         json.RawMessage
		At          time.Time
		Err         error `json:"-"`
		hidden      error
	}
	for name, run := range map[string]func(*process, *testing.T) error{
		"a struct":         posting[tree],
		"a map of any":     posting[map[string]any],
		"nothing":          posting[struct{}],
		"JSON as it is":    posting[json.RawMessage],
		"a list of points": posting[[]*tree],
	} {
		virtual(t, name, func(t *testing.T) {
			l := &line{}
			require.NoError(t, run(startFlows(t, l, onceward.Config{}), t))
			assert.Len(t, l.Sent(), 1)
		})
	}
	_ = tree{}.hidden
}
