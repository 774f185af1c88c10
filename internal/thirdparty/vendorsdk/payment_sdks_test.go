package vendorsdk_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/mercadopago/sdk-go/pkg/config"
	"github.com/mercadopago/sdk-go/pkg/mperror"
	mppayment "github.com/mercadopago/sdk-go/pkg/payment"
	"github.com/razorpay/razorpay-go/requests"
	"github.com/razorpay/razorpay-go/resources"

	"github.com/onceward/onceward/providers"
)

const day = 24 * time.Hour

// razorpayGo takes no context, so the call's own client brings it. It repeats nothing. Its errors have no status, and
// one type.
var razorpayGo = sdk{
	name:     "razorpay-go",
	provider: func() providers.Provider { return providers.Razorpay(day) },
	answer:   `{"id":"paid_1","entity":"refund","status":"processed"}`,
	connect: func(hc *http.Client, baseURL string, _ bool) (pay, error) {
		under, err := contexts(hc, baseURL)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) (string, error) {
			p := resources.Payment{Request: &requests.Request{
				Auth: requests.Auth{Key: "rzp_test_1", Secret: "secret"}, BaseURL: baseURL,
				HTTPClient: under(ctx),
			}}
			refund, err := p.Refund("pay_1", 4200, nil, map[string]string{"X-Refund-Idempotency": rand.Text()})
			if err != nil {
				return "", err
			}
			id, _ := refund["id"].(string)
			return id, nil
		}, nil
	},
	status:        func(error) (int, string) { return 0, "" },
	authorization: "Basic cnpwX3Rlc3RfMTpzZWNyZXQ=",
	resends:       true,
}

// mercadoPago makes up a key for each call. It repeats a call that met no answer or a server's error three times, but
// not with the client of its caller.
var mercadoPago = sdk{
	name:     "Mercado Pago",
	provider: func() providers.Provider { return providers.MercadoPago(day) },
	answer:   `{"id":1,"status":"approved"}`,
	connect: func(hc *http.Client, baseURL string, _ bool) (pay, error) {
		under, err := contexts(hc, baseURL)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) (string, error) {
			cfg, err := config.New("TEST-1", config.WithHTTPClient(under(ctx)))
			if err != nil {
				return "", err
			}
			made, err := mppayment.NewClient(cfg).Create(ctx, mppayment.Request{TransactionAmount: 42, PaymentMethodID: "pix"})
			if err != nil {
				return "", err
			}
			return "paid_" + strconv.Itoa(made.ID), nil
		}, nil
	},
	status: func(err error) (int, string) {
		var own *mperror.ResponseError
		if !errors.As(err, &own) {
			return 0, ""
		}
		return own.StatusCode, own.Message
	},
	authorization: "Bearer TEST-1",
	resends:       true,
	lostOnly:      true,
}
