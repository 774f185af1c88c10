package onceward_test

import (
	"context"
	"net/http"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/providers"
)

// The names and signatures that never change. This file fails to compile if one does.
var (
	_ func(onceward.Config) (*onceward.Client, error) = onceward.New

	_ func(*onceward.Client) *http.Client                              = (*onceward.Client).HTTPClient
	_ func(*onceward.Client) http.RoundTripper                         = (*onceward.Client).Transport
	_ func(*onceward.Client, context.Context) error                    = (*onceward.Client).Run
	_ func(*onceward.Client, context.Context) (onceward.Report, error) = (*onceward.Client).Resume

	_ func() onceward.Key                                        = onceward.NewKey
	_ func(secret []byte, parts ...string) (onceward.Key, error) = onceward.DeriveKey
	_                                                            = string(onceward.Key(""))

	_ = []func() providers.Provider{
		providers.Airwallex, providers.AmazonPay, providers.Braintree, providers.Bridge, providers.Chargebee,
		providers.Checkout, providers.Circle, providers.Coinbase, providers.Dwolla, providers.Finix,
		providers.Fireblocks, providers.Flutterwave, providers.GoCardless, providers.Increase, providers.Klarna,
		providers.Lithic, providers.Mangopay, providers.ModernTreasury, providers.Mollie, providers.Moov,
		providers.PayPal, providers.Paystack, providers.Plaid, providers.Rapyd, providers.Resend,
		providers.Stripe, providers.Telnyx, providers.TrueLayer, providers.Twilio, providers.WorkOS,
		providers.Worldline, providers.Zuora,
	}
	_ = []func(...providers.AWSAction) providers.Provider{
		providers.AWS,
	}
	_ = []func(...string) providers.Provider{
		providers.ACP, providers.Marqeta, providers.Shopify, providers.Svix,
	}
	_ = []func(string, ...string) providers.Provider{
		providers.UCP,
	}
	_ = []func(providers.KeyPlace, time.Duration, ...string) providers.Provider{
		providers.AIP155,
	}
	_ = []func(string) providers.Provider{
		providers.Adyen,
	}
	_ = []func(time.Duration) providers.Provider{
		providers.Column, providers.MercadoPago, providers.Razorpay, providers.Square,
	}
	_ = []func(time.Duration, ...string) providers.Provider{
		providers.IETF, providers.Onceward, providers.Raw, providers.Repeatable, providers.Wise,
	}
)
