package onceward_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/providers"
)

func jsonText(text string) option {
	return func(r *http.Request) {
		body(text)(r)
		r.Header.Set("Content-Type", "application/json")
	}
}

// A partner refunds for one sub-merchant, and by the same name for another one.
func TestAnotherSubMerchantsRefundIsNotTheAnswer(t *testing.T) {
	virtual(t, "Razorpay", func(t *testing.T) {
		l := &line{}
		p := start(t, l, onceward.Config{Providers: []providers.Provider{providers.Razorpay(24 * time.Hour)}})
		refund := to(http.MethodPost, "https://api.razorpay.com/v1/payments/pay_1/refund")
		require.NoError(t, p.ask(named(t, "refund-7"), refund, with("X-Razorpay-Account", "acc_A")).err)
		out := p.ask(named(t, "refund-7"), refund, with("X-Razorpay-Account", "acc_B"))
		require.ErrorIs(t, out.err, onceward.ErrKeyReused)
		assert.Len(t, l.sent(), 1)
		assert.NoError(t, p.ask(named(t, "refund-7"), refund, with("X-Razorpay-Account", "acc_A")).err)
	})
}

// One seller's answer is lost, and the same name is asked for with another's token:
// whether that one's keys are known to Square by the first one's is not published.
func TestOneSellersKeyIsNotSentUnderAnothersToken(t *testing.T) {
	virtual(t, "Square", func(t *testing.T) {
		square := providers.Square(24 * time.Hour)
		for i := range square.Endpoints {
			if e := &square.Endpoints[i]; e.Pattern == "POST /v2/payments" {
				e.Remembers, e.InFlightGuard = providers.SuccessesCleanFailures, true
			}
		}
		l := (&line{}).then(loses())
		p := start(t, l, onceward.Config{Providers: []providers.Provider{square}, Backoff: once})
		pay := []option{to(http.MethodPost, "https://connect.squareup.com/v2/payments"), jsonText(`{"amount_money":{"amount":100}}`)}
		require.ErrorIs(t, p.ask(named(t, "order-1"), append(pay, with("Authorization", "Bearer seller_A"))...).err, onceward.ErrPending)
		pass(time.Hour)
		out := p.ask(named(t, "order-1"), append(pay, with("Authorization", "Bearer seller_B"))...)
		require.Error(t, out.err)
		for _, sent := range l.sent() {
			assert.Equal(t, "Bearer seller_A", sent.Header.Get("Authorization"))
		}
	})
}
