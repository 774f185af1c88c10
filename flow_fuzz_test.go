package onceward_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
)

// Whatever steps and operations are called, two of them never share a key, and undos
// share none with steps.
func FuzzNoTwoOperationsOfAFlowShareAKey(f *testing.F) {
	f.Add("charge", "", "charge2", "")
	f.Add("charge", "tip", "charge", "fee")
	f.Add("a", "b/c", "a/b", "c")
	f.Add("undo", "a", "a", "undo")
	f.Add("a", "undo/a", "undo", "a/a")
	f.Add("", "", " ", "\x00")
	f.Fuzz(func(t *testing.T, step, name, otherStep, otherName string) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		call := func(ctx context.Context, name, what string) error {
			if name != "" {
				ctx = onceward.WithOperation(ctx, name)
			}
			_, err := p.post(ctx, what)
			return err
		}
		made := 0
		err := p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
			for _, s := range []struct{ step, name string }{{step, name}, {otherStep, otherName}} {
				_, err := onceward.Step(ctx, s.step, func(ctx context.Context) (int, error) {
					err := call(ctx, s.name, "make")
					if err == nil {
						made++
					}
					return 1, err
				}, onceward.WithUndo(func(ctx context.Context, _ int) error {
					err := call(ctx, s.name, "undo")
					if err == nil {
						made++
					}
					return err
				}))
				if err != nil {
					return onceward.GiveUp(err)
				}
			}
			return onceward.GiveUp(errors.New("so that all is undone"))
		})
		require.Error(t, err)
		require.Len(t, distinct(l.keys()), made)
		require.Len(t, l.keys(), made)
	})
}
