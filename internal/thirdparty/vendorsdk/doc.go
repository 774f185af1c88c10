// Package vendorsdk holds tests of Onceward below vendors' SDKs, which make up keys and retry by themselves:
// stripe-go, twilio-go, resend-go, openai-go, the AWS SDK, a PayPal client and Svix's. It also holds tests of stripe-go
// and go-retryablehttp before a service that answers by package server. It is a module of its own, so that they are no
// dependencies of the library.
package vendorsdk
