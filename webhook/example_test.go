package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/onceward/onceward/webhook"
)

// A handler sees only messages that Stripe signed at most five minutes ago.
func Example() {
	verifier, err := webhook.Stripe("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_old_but_not_forgotten") // both, while one is rotated
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /stripe", &webhook.Handler{
		Verifier: verifier,
		Next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			m, _ := webhook.MessageOf(r.Context())
			fmt.Println("verified:", m.Events) // act once on each: it may come again
		}),
		Refused: func(_ *http.Request, err error) { fmt.Println(err) },
	})

	send := func(r *http.Request) {
		r.URL.Path = "/stripe"
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, r)
		fmt.Println(answer.Code)
	}
	send(signStripe("whsec_old_but_not_forgotten", `{"id":"evt_1"}`, time.Now()))
	send(signStripe("whsec_guessed_by_somebody", `{"id":"evt_2"}`, time.Now()))
	// Output:
	// verified: [evt_1]
	// 200
	// webhook: stripe: no signature matches
	// 403
}

func ExampleVerifier_Verify() {
	verifier, err := webhook.Stripe("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		panic(err)
	}
	r := signStripe("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", `{"id":"evt_1"}`, time.Now().Add(-time.Hour)) // a replay
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	_, err = verifier.Verify(r, body)
	fmt.Println(errors.Is(err, webhook.ErrTimestamp))
	// Output: true
}

func ExampleStripe() {
	verifier, err := webhook.Stripe("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		panic(err)
	}
	body := `{"id":"evt_1","object":"event"}`
	m, err := verifier.Verify(signStripe("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", body, time.Now()), []byte(body))
	fmt.Println(m.Events, err)
	// Output: [evt_1] <nil>
}

func ExampleStandardWebhooks() {
	// A sender that goes over from a shared secret to a key pair.
	verifier, err := webhook.StandardWebhooks(
		"whsec_dHdlbnR5LWZvdXIgYnl0ZXMgb3IgbW9yZQ==",
		"whpk_iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w=",
	)
	if err != nil {
		panic(err)
	}
	body := `{"type":"contact.created"}`
	m, err := verifier.Verify(signStandard("whsec_dHdlbnR5LWZvdXIgYnl0ZXMgb3IgbW9yZQ==", body, time.Now()), []byte(body))
	fmt.Println(m.ID, err)
	// Output: msg_2KWPBgLlAfxdpx2AI54pPJ85f4W <nil>
}

func ExampleAdyen() {
	const key = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"
	verifier, err := webhook.Adyen(key)
	if err != nil {
		panic(err)
	}
	body := adyenBody(adyenItem(key, adyenFields("7914073381342284")))
	m, err := verifier.Verify(post(body), []byte(body))
	fmt.Println(m.Events, err)
	// Output: [7914073381342284::TestMerchant:order-1:1130:EUR:AUTHORISATION:true] <nil>
}

func ExampleAdyenPlatform() {
	const key = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"
	verifier, err := webhook.AdyenPlatform(key)
	if err != nil {
		panic(err)
	}
	body := `{"type":"balancePlatform.transfer.created"}`
	_, err = verifier.Verify(signAdyenPlatform(key, body, time.Now()), []byte(body))
	fmt.Println(err)
	// Output: <nil>
}

func ExamplePayPal() {
	verifier, err := webhook.PayPal(webhook.PayPalConfig{
		WebhookIDs: []string{"1JE4291016473214C"},
		Roots:      payPalRoot().roots, // nil: the system's
		Certificate: func(ctx context.Context, url string) ([]byte, error) {
			// GET url, without following redirects, and keep the answer.
			return payPalRoot().issue(payPalName, &payPalKeys()[1].PublicKey, always), nil
		},
	})
	if err != nil {
		panic(err)
	}
	body := `{"id":"WH-1","event_type":"PAYMENT.CAPTURE.COMPLETED"}`
	m, err := verifier.Verify(signPayPal("1JE4291016473214C", body, time.Now()), []byte(body))
	fmt.Println(m.ID, m.Events, err)
	// Output: 69cd13f0-d67a-11e5-baa3-778b53f4ae55 [WH-1] <nil>
}

func ExampleSquare() {
	verifier, err := webhook.Square("https://example.com/square", "Ibxx_5dmM2dN8RLhjZVb4w")
	if err != nil {
		panic(err)
	}
	body := `{"event_id":"ac3ac95b","type":"payment.created"}`
	m, err := verifier.Verify(signSquare("Ibxx_5dmM2dN8RLhjZVb4w", body, time.Now()), []byte(body))
	fmt.Println(m.Events, err)
	// Output: [ac3ac95b] <nil>
}

func ExampleTwilio() {
	verifier, err := webhook.Twilio("https://example.com", "15dc6f8e9f2b4bd0a2f2ad3ab57e3f4b")
	if err != nil {
		panic(err)
	}
	body := "MessageSid=SM1&MessageStatus=delivered"
	_, err = verifier.Verify(signTwilio("15dc6f8e9f2b4bd0a2f2ad3ab57e3f4b", body, time.Now()), []byte(body))
	fmt.Println(err)
	// Output: <nil>
}

func ExampleGoCardless() {
	verifier, err := webhook.GoCardless("an endpoint's secret")
	if err != nil {
		panic(err)
	}
	body := `{"events":[{"id":"EV1"},{"id":"EV2"}]}`
	m, err := verifier.Verify(signGoCardless("an endpoint's secret", body, time.Now()), []byte(body))
	fmt.Println(m.Events, err)
	// Output: [EV1 EV2] <nil>
}
