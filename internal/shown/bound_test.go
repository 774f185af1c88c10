package shown

import (
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
)

// At most two bodies are decoded at the same time. Others wait.
func TestTwoBodiesAreDecodedAtOnce(t *testing.T) {
	bound := rendering
	defer func() { rendering = bound }()
	assert.Equal(t, 2, cap(bound))
	synctest.Test(t, func(t *testing.T) {
		rendering = make(chan struct{}, cap(bound))
		for range cap(bound) {
			rendering <- struct{}{} // a body that is being decoded
		}
		var shown atomic.Int32
		for range 3 {
			go func() {
				Shape("application/json", []byte(`{"amount":1}`))
				shown.Add(1)
			}()
			go func() {
				Masked("application/json", []byte(`{"amount":1}`))
				shown.Add(1)
			}()
		}
		synctest.Wait()
		assert.Zero(t, shown.Load())
		<-rendering
		synctest.Wait()
		assert.EqualValues(t, 6, shown.Load())
	})
}
