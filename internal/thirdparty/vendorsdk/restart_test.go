package vendorsdk_test

import (
	"net/http"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
)

// eachSDK runs a test over every SDK, in parallel.
func eachSDK(t *testing.T, test func(t *testing.T, s sdk)) {
	for _, s := range sdks {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
}

// Without Onceward the SDK makes another key for each call. The other tests exist to prevent that.
func TestWithoutOncewardAnotherKeyEachCall(t *testing.T) {
	eachSDK(t, func(t *testing.T, s sdk) {
		b := s.inBox(t, nil)
		pay, err := s.connect(b.Client(), b.URL, true)
		require.NoError(t, err)
		for range 2 {
			id, err := pay(t.Context())
			require.NoError(t, err)
			assert.Equal(t, "paid_1", id)
		}
		keys := b.seen()
		require.Len(t, keys, 2)
		if !s.keyless {
			assert.NotEmpty(t, keys[0])
			assert.NotEqual(t, keys[0], keys[1])
		}
		assert.Len(t, b.Effects(), 2, "it was paid twice")
	})
}

// A name keeps its key after the process was killed before it sent the request, although the SDK then makes another
// key.
func TestNameKeepsItsKeyKilledUnsent(t *testing.T) {
	eachSDK(t, func(t *testing.T, s sdk) {
		b, path := s.inBox(t, nil), filepath.Join(t.TempDir(), "journal.db")
		first := childPlan{SDK: s.name, Journal: path, URL: b.URL, Unplugged: true}.start(t)
		told := first.report()
		require.True(t, told.Pending, told.Err)
		require.Empty(t, b.seen())
		first.kill()

		p := s.start(t, path, b.URL, patient)
		for range 2 {
			id, err := p.pay(named(t))
			require.NoError(t, err)
			assert.Equal(t, "paid_1", id)
		}
		assert.Equal(t, []string{s.onTheWire(told.Key)}, b.seen())
		if !s.keyless {
			assert.Equal(t, 1, p.replaced, "the new key gave way to the first process's")
		}
		assert.Len(t, b.Effects(), 1)
	})
}

// A name keeps its key after the process was killed during the call, although the SDK then makes another key.
func TestNameKeepsItsKeyKilledInItsCall(t *testing.T) {
	for way, resumed := range map[string]bool{"asked for again": false, "finished by Resume, then asked for": true} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			eachSDK(t, func(t *testing.T, s sdk) {
				paid, gone := make(chan struct{}), make(chan struct{})
				once, letGo := sync.OnceFunc(func() { close(paid) }), sync.OnceFunc(func() { close(gone) })
				b := s.inBox(t, func(w http.ResponseWriter, r *http.Request) {
					once()
					<-gone // the client is dead by then
					says(http.StatusOK, s.answer)(w, r)
				})
				t.Cleanup(letGo)
				path := filepath.Join(t.TempDir(), "journal.db")
				first := childPlan{SDK: s.name, Journal: path, URL: b.URL}.start(t)
				first.reach(paid)
				first.kill()
				letGo()

				p := s.start(t, path, b.URL, patient)
				resends := s.resends && !s.lostOnly // a failure may have been received before the kill
				if resumed {
					report, err := p.Resume(t.Context())
					require.NoError(t, err)
					if resends {
						assert.Equal(t, 1, report.Completed)
					} else {
						assert.Equal(t, 1, report.Unknown)
					}
				}
				for range 2 {
					id, err := p.pay(named(t))
					if resends {
						require.NoError(t, err)
						assert.Equal(t, "paid_1", id)
					} else {
						requireOurs(t, err, onceward.ErrOutcomeUnknown, s)
					}
				}
				op := p.operation(t, payment)
				keys := b.seen()
				if resends {
					assert.Equal(t, onceward.StateCompleted, op.State)
					assert.Greater(t, len(keys), 1)
				} else {
					assert.Equal(t, onceward.StateUnknown, op.State)
					assert.Len(t, keys, 1, "the contract doesn't let it be repeated")
				}
				for _, key := range keys {
					assert.Equal(t, s.onTheWire(string(op.Key)), key)
				}
				assert.Len(t, b.Effects(), 1)
			})
		})
	}
}

// An SDK gets the recorded answer after its process was killed with it.
func TestRecordedAnswerAfterAKill(t *testing.T) {
	eachSDK(t, func(t *testing.T, s sdk) {
		b, path := s.inBox(t, nil), filepath.Join(t.TempDir(), "journal.db")
		first := childPlan{SDK: s.name, Journal: path, URL: b.URL}.start(t)
		told := first.report()
		require.Equal(t, "paid_1", told.ID, told.Err)
		first.kill()

		p := s.start(t, path, b.URL, patient)
		id, err := p.pay(named(t))
		require.NoError(t, err)
		assert.Equal(t, "paid_1", id)
		assert.Equal(t, []string{s.onTheWire(told.Key)}, b.seen(), "nothing was sent again")
		assert.Len(t, b.Effects(), 1)
	})
}

// onTheWire is the key that requests carry under an operation's key.
func (s sdk) onTheWire(key string) string {
	if s.keyless {
		return ""
	}
	return key
}

// An SDK's own client goes through ours as http.DefaultTransport, if it uses that.
func TestDefaultTransportBelowAnSDKsOwnClient(t *testing.T) {
	eachSDK(t, func(t *testing.T, s sdk) {
		b, path := s.inBox(t, nil), filepath.Join(t.TempDir(), "journal.db")
		first := childPlan{SDK: s.name, Journal: path, URL: b.URL, AsDefault: true}.start(t)
		told := first.report()
		first.kill()
		assert.Equal(t, s.ownClient == "panics", told.Panicked)
		assert.Equal(t, s.ownClient == "", told.Recorded)
		if told.Panicked {
			return
		}
		require.Equal(t, "paid_1", told.ID, told.Err)
		assert.Len(t, b.Effects(), 1)
		if told.Recorded {
			assert.Equal(t, []string{s.onTheWire(told.Key)}, b.seen())
		}
	})
}
