package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/stripe/stripe-go/v85"
	svix "github.com/svix/svix-webhooks/go"
	"github.com/svix/svix-webhooks/go/models"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
)

type service struct {
	journal database
	client  *onceward.Client
	flows   *flow.Runner
	stripe  *stripe.Client
	svix    *svix.Svix
	order   *flow.Func[order, receipt]
}

// order is a shop's request. It is the flow's input: recorded, and compared with every later call's input under
// the same key.
type order struct {
	Reference   string `json:"reference"`    // the shop's own number
	Goods       int64  `json:"goods"`        // cents
	Card        string `json:"card"`         // the buyer's payment method at Stripe
	Courier     int64  `json:"courier"`      // cents
	CourierCard string `json:"courier_card"` // of the courier's payer
}

// receipt is the flow's result: recorded, and the same for every caller.
type receipt struct {
	Order   string `json:"order"`
	Payment string `json:"payment"`
	Courier string `json:"courier"`
	Message string `json:"message"`
}

// The errors that a flow's function acts on are Reasons, since a Reason comes back from the journal after a restart.
const (
	errRefused        = flow.Reason("the payment was refused")
	errCourierRefused = flow.Reason("the courier's payment was refused")
)

// place is one order's flow.
func (s *service) place(ctx context.Context, o order) (receipt, error) {
	id, err := flow.UUIDStep(ctx, "id")
	if err != nil {
		return receipt{}, err
	}
	payment, err := flow.Step(ctx, "charge", func(ctx context.Context) (string, error) {
		return s.charge(ctx, id, o.Reference, "goods", o.Goods, o.Card)
	}, flow.WithUndo(s.refund))
	if errors.Is(err, errRefused) {
		return receipt{}, flow.GiveUp(err)
	} else if err != nil {
		return receipt{}, err
	}
	_, err = flow.LocalStep(ctx, "book", func(ctx context.Context, tx any) (string, error) {
		return payment, book(ctx, tx, payment, o.Reference, o.Goods)
	}, flow.WithUndo(s.reverse))
	if err != nil {
		return receipt{}, err
	}
	courier, err := flow.Step(ctx, "charge courier", func(ctx context.Context) (string, error) {
		return s.charge(ctx, id, o.Reference, "courier", o.Courier, o.CourierCard)
	}, flow.WithUndo(s.refund))
	if errors.Is(err, errRefused) {
		return receipt{}, flow.GiveUp(errCourierRefused) // undoes "book", then "charge"
	} else if err != nil {
		return receipt{}, err
	}
	_, err = flow.LocalStep(ctx, "book courier", func(ctx context.Context, tx any) (string, error) {
		return courier, book(ctx, tx, courier, o.Reference, o.Courier)
	}, flow.WithUndo(s.reverse))
	if err != nil {
		return receipt{}, err
	}
	message, err := flow.Step(ctx, "notify", func(ctx context.Context) (string, error) {
		return s.notify(ctx, id, o)
	})
	if err != nil {
		return receipt{}, err
	}
	return receipt{Order: id, Payment: payment, Courier: courier, Message: message}, nil
}

// charge makes the request from recorded values alone, so that every run sends the same one. A payment that Stripe
// refuses charges no card: the card was declined, or Stripe does not know it. A 200 answer can be a payment that
// waits for the buyer's bank. No one here would ask the bank, so such a card is refused, too.
func (s *service) charge(ctx context.Context, id, reference, what string, cents int64, card string) (string, error) {
	intent, err := s.stripe.V1PaymentIntents.Create(ctx, &stripe.PaymentIntentCreateParams{
		Amount:        stripe.Int64(cents),
		Currency:      stripe.String(stripe.CurrencyEUR),
		PaymentMethod: stripe.String(card),
		Confirm:       stripe.Bool(true),
		Metadata:      map[string]string{"order": id, "reference": reference, "what": what},

		PaymentMethodTypes:    []*string{stripe.String("card")},
		ErrorOnRequiresAction: stripe.Bool(true),
	})
	if refusal, ok := errors.AsType[*stripe.Error](err); ok && (refusal.HTTPStatusCode == http.StatusPaymentRequired || refusal.HTTPStatusCode == http.StatusBadRequest) {
		return "", errRefused
	} else if err != nil {
		return "", err
	}
	if intent.Status != stripe.PaymentIntentStatusSucceeded {
		return "", fmt.Errorf("payment %s is %s: a person has to look", intent.ID, intent.Status)
	}
	return intent.ID, nil
}

// refund takes a payment back, unless a person was faster.
func (s *service) refund(ctx context.Context, payment string) error {
	refund, err := s.stripe.V1Refunds.Create(ctx, &stripe.RefundCreateParams{PaymentIntent: stripe.String(payment)})
	if refusal, ok := errors.AsType[*stripe.Error](err); ok && refusal.Code == stripe.ErrorCodeChargeAlreadyRefunded {
		return nil
	} else if err != nil {
		return err
	}
	if refund.Status == stripe.RefundStatusFailed {
		return fmt.Errorf("refund %s has failed: a person has to look", refund.ID)
	}
	return nil
}

// application is Svix's name for the messages' receiver.
const application = "orders"

// notify sends the message. If the answer was lost, it asks Svix itself whether the message exists. Svix publishes
// too little about its keys for a repeat to be safe. But it takes an eventId once, and returns the message that has
// it.
func (s *service) notify(ctx context.Context, id string, o order) (string, error) {
	message := models.MessageIn{
		EventType: "order.placed",
		EventId:   &id,
		Payload:   map[string]any{"order": id, "reference": o.Reference},
	}
	for again := false; ; again = true {
		sent, err := s.svix.Message.Create(ctx, application, message, nil)
		if err == nil {
			return sent.Id, nil
		}
		found, look := s.svix.Message.Get(ctx, application, id, nil)
		if look == nil {
			return found.Id, nil
		}
		unknown, ok := errors.AsType[*onceward.Error](err)
		if refusal, is := errors.AsType[*svix.Error](look); again || !ok || unknown.Kind != onceward.ErrOutcomeUnknown ||
			!is || refusal.Status() != http.StatusNotFound {
			return "", err
		}
		// It is not there. If it comes late, Svix refuses one of the two by the eventId. Without that, this would be
		// a guess, and a person would have to decide.
		if _, err := s.client.Resolve(ctx, unknown.Operation.Seen, onceward.NotExecuted,
			onceward.ResolveOptions{By: "notify", Why: "Svix has no message with this eventId"}); err != nil {
			return "", err
		}
	}
}

// post answers every caller with one key the same, or tells it to ask again.
func (s *service) post(w http.ResponseWriter, r *http.Request) {
	var o order
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&o); err != nil {
		http.Error(w, "not an order", http.StatusBadRequest)
		return
	}
	// A client that goes away breaks no call off: the order was accepted, and goes on. Config.MaxWait limits how long
	// it may take.
	ctx := context.WithoutCancel(r.Context())
	done, err := s.order.Run(ctx, s.flows, "order", o) // one order to an inbound key
	undone := errors.Is(err, flow.ErrGivenUp)
	switch {
	case err == nil:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(done)
	case undone && errors.Is(err, errRefused):
		http.Error(w, errRefused.Error(), http.StatusPaymentRequired)
	case undone && errors.Is(err, errCourierRefused):
		http.Error(w, errCourierRefused.Error(), http.StatusPaymentRequired)
	case errors.Is(err, onceward.ErrKeyReused):
		http.Error(w, "this key was used for another order", http.StatusUnprocessableEntity)
	default: // it is recorded, and Run goes on with it; or nothing was done
		slog.InfoContext(ctx, "an order waits", "error", err)
		w.Header().Set("Retry-After", "1")
		http.Error(w, "not done yet: ask again with the same key", http.StatusServiceUnavailable)
	}
}
