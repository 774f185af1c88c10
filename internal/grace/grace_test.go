package grace_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/grace"
)

func TestAfterEndsAPeriodAfterItsCaller(t *testing.T) {
	type key struct{}
	for name, end := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"a deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 3*time.Second)
		},
		"a cancellation": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(3*time.Second, cancel)
			return ctx, cancel
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := end(context.WithValue(t.Context(), key{}, "its own"))
				defer cancel()
				began := time.Now()
				running, leave := grace.After(ctx)
				defer leave()
				assert.Equal(t, "its own", running.Value(key{}))
				<-running.Done()
				assert.Equal(t, 3*time.Second+grace.Period, time.Since(began))
				late, leaveLate := grace.After(ctx)
				defer leaveLate()
				assert.NoError(t, late.Err())
				<-late.Done()
				assert.Equal(t, 3*time.Second+2*grace.Period, time.Since(began))
			})
		})
	}
}

func TestAfterOfAContextThatNeverEnds(t *testing.T) {
	ctx, cancel := grace.After(context.Background())
	cancel()
	assert.Nil(t, ctx.Done())
}

func TestAfterLeavesNothingRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		own, leave := grace.After(ctx)
		cancel()
		synctest.Wait()
		leave()
		synctest.Wait() // the bubble ends only once each goroutine has
		assert.ErrorIs(t, own.Err(), context.Canceled)
	})
}
