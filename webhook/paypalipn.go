package webhook

import "net/http"

// PayPalIPN reads PayPal's older webhooks, Instant Payment Notifications. The receiver can check no signature, and anyone
// can send such a form, so the message is a hint. To verify the message, POST cmd=_notify-validate& and the body's bytes
// to https://ipnpb.paypal.com/cgi-bin/webscr, or for the sandbox to https://ipnpb.sandbox.paypal.com/cgi-bin/webscr.
// PayPal answers VERIFIED or INVALID (documented, in "Implementing an IPN listener").
//
// The verifier checks the form alone: a POST of a form, without a field cmd. Any other request is ErrMalformed.
// Message.ID and Message.Events are empty. A txn_id is the payment's, and comes again with each payment_status, such as
// Pending and later Completed. An ID for each message is not confirmed.
func PayPalIPN() *Verifier {
	return &Verifier{scheme: "paypal ipn", hint: true, verify: func(r *http.Request, body []byte) (Message, error) {
		form, err := parseForm(r, body)
		if err == nil && form.Has("cmd") {
			err = malformed("the form has a cmd, which would change the question to PayPal")
		}
		return Message{}, err
	}}
}
