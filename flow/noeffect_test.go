package flow_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
)

var errDeclined = errors.New("the card was declined")

// declinesIn runs a two-step flow: one with an undo, and a payment at url. The provider declines the payment by a
// success, for which the flow gives up if why is errDeclined.
func (p *process) declinesIn(t *testing.T, url string, why error) error {
	t.Helper()
	return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
		if err := p.undoable(ctx, "create"); err != nil {
			return err
		}
		_, err := flow.Step(ctx, "pay", func(ctx context.Context) (struct{}, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"reference":"order-991"}`))
			if err != nil {
				return struct{}{}, err
			}
			req.Header.Set("Content-Type", "application/json")
			resp, err := p.HTTP.Do(req)
			if err != nil {
				return struct{}{}, err
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if err == nil && strings.Contains(string(text), "Refused") {
				err = why
			}
			return struct{}{}, err
		})
		if errors.Is(err, errDeclined) {
			return flow.GiveUp(err)
		}
		return err
	})
}

// A payment that is declined by a success does not block the undo.
func TestNoEffectOfADeclinedPayment(t *testing.T) {
	const adyen, unlisted = "https://checkout-test.adyen.com/v71/payments", "https://pay.example/payments"
	refused := says(200, `{"resultCode":"Refused"}`)
	for _, row := range []struct {
		name, url string
		why       error
		undone    bool
	}{
		{"the table tells", adyen, errDeclined, true},
		{"the step tells", unlisted, flow.NoEffect(errDeclined), true},
		{"the step wraps it in another error", unlisted, fmt.Errorf("pay: %w", flow.NoEffect(errDeclined)), true},
		{"neither the step nor the table reports it", unlisted, errDeclined, false},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).Then(says(200, paid), refused)
			p := startFlows(t, l, onceward.Config{Providers: []providers.Provider{providers.Stripe(), providers.Adyen("")}})
			err := p.declinesIn(t, row.url, row.why)
			if !row.undone {
				require.ErrorIs(t, err, flow.ErrUndoBlocked)
				assert.ErrorContains(t, err, "NoEffect")
				assert.Len(t, l.Sent(), 2)
				return
			}
			require.ErrorIs(t, err, flow.ErrGivenUp)
			require.ErrorIs(t, err, errDeclined)
			require.Len(t, l.Sent(), 3)
			assert.Equal(t, "description=undo-create-ch_1", l.Sent()[2].Body)
			assert.Equal(t, flow.StateGivenUp, p.flow("order-991").State)
		})
	}
}

// A function no longer comes to the step of a payment. The payment had no effect only if its answer was recorded as a refusal, by
// the table of that time. Otherwise it is taken to have had an effect.
func TestNoEffectIsReadFromTheAnswer(t *testing.T) {
	const adyen = "https://checkout-test.adyen.com/v71/payments"
	refused := says(200, `{"resultCode":"Refused"}`)
	renamed := providers.Adyen("")
	renamed.Name = "another"
	for _, row := range []struct {
		name   string
		answer reply
		now    []providers.Provider // besides Stripe; nil: as before
		undone bool
	}{
		{"declined by a success", refused, nil, true},
		{"refused", says(422, `{"errorCode":"101","message":"Refused"}`), nil, true},
		{"a success that its step does not take for one", says(200, `{"resultCode":"Authorised","merchantReference":"Refused"}`), nil, false},
		{"resolved without its answer", frozen, nil, false},
		{"its provider is listed no longer", refused, []providers.Provider{}, true},
		{"its endpoint is listed of another provider", refused, []providers.Provider{renamed}, true},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).Then(says(200, paid), row.answer)
			before := []providers.Provider{providers.Adyen("")}
			cfg := onceward.Config{Journal: memory.New(), Backoff: once, Providers: append(before, providers.Stripe())}
			p := startFlows(t, l, cfg)
			require.Error(t, p.declinesIn(t, adyen, io.ErrUnexpectedEOF))
			op, err := p.Operation(t.Context(), p.flow("order-991").Operation("pay"))
			require.NoError(t, err)
			if op.State != onceward.StateCompleted && op.State != onceward.StateCancelled {
				_, err = p.Resolve(t.Context(), op.Seen, onceward.Executed, byHand)
				require.NoError(t, err)
			}
			if row.now != nil {
				cfg.Providers = append(row.now, providers.Stripe())
				p = startFlows(t, l, cfg)
			}
			_, err = p.Flows.GiveUp(t.Context(), onceward.Ref{ID: "order-991"}, "declined")
			require.NoError(t, err)
			err = p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error { return p.undoable(ctx, "create") })
			if !row.undone {
				require.ErrorIs(t, err, flow.ErrUndoBlocked)
				assert.ErrorContains(t, err, "does not reach the step")
				assert.Len(t, l.Sent(), 2)
				return
			}
			require.ErrorIs(t, err, flow.ErrGivenUp)
			assert.Len(t, l.Sent(), 3)
		})
	}
}

func TestNoEffectOfNilIsNil(t *testing.T) {
	require.NoError(t, flow.NoEffect(nil))
	require.ErrorIs(t, flow.NoEffect(errDeclined), errDeclined)
	assert.EqualError(t, flow.NoEffect(errDeclined), errDeclined.Error())
}
