package providertest

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// The following functions sign like the providers. Package webhook has the source of each scheme. They share
// no code with it, so that no mistake is made on both sides.

// Sign signs a webhook's body like the provider with this name (its adapter's), or by Standard Webhooks for
// an unknown name. It sets the headers and returns the body to send, which differs if it contains the
// signature. For the secret see [Server.Events]. It returns an error if the secret is invalid or the package
// has no scheme for the provider. The error never holds the secret.
func Sign(provider string, g Signing, h http.Header, body []byte) ([]byte, error) {
	signs := schemes[provider]
	if signs == nil {
		signs = signStandard
	}
	return signs(g, h, body)
}

// Signing has a signature's inputs besides the body.
type Signing struct {
	Secret string    // as for [Server.Events]
	ID     string    // of the delivery, the same for every repeat of it
	At     time.Time // when it is signed
	URL    string    // to which it is sent

	// Forged requests a signature of another secret.
	Forged bool
}

// sign puts the signature into its place in the provider's scheme, and returns the body to send.
type sign func(g Signing, h http.Header, body []byte) ([]byte, error)

// schemes are the providers' by their names. An API of another name signs by Standard
// Webhooks.
var schemes = map[string]sign{
	"stripe":         signStripe,
	"adyen":          signAdyen,
	"square":         signSquare,
	"gocardless":     bodyHex("Webhook-Signature"),
	"checkout.com":   bodyHex("Cko-Signature"),
	"mollie":         bodyHex("X-Mollie-Signature"),
	"klarna":         bodyHex("Klarna-Signature"),
	"wise":           signWise,
	"razorpay":       bodyHex("X-Razorpay-Signature"),
	"moderntreasury": bodyHex("X-Signature"),
	"dwolla":         bodyHex("X-Request-Signature-SHA-256"),
	"braintree":      signBraintree,
	"shopify":        bodyBase64("X-Shopify-Hmac-Sha256"),
	"increase":       signIncrease,
	"column":         bodyHex("Column-Signature"),
	"workos":         signWorkOS,
	"paypal":         unsigned("PayPal signs by a certificate, which a box has none of"),
	"twilio":         unsigned("Twilio's callbacks tell of no event that a table describes"),
}

// mac is the HMAC of the parts, or another if it is to be forged.
func (g Signing) mac(newHash func() hash.Hash, key []byte, parts ...string) []byte {
	h := hmac.New(newHash, key)
	for _, part := range parts {
		h.Write([]byte(part))
	}
	if g.Forged {
		h.Write([]byte("forged"))
	}
	return h.Sum(nil)
}

func bodyHex(name string) sign {
	return func(g Signing, h http.Header, body []byte) ([]byte, error) {
		h.Set(name, hex.EncodeToString(g.mac(sha256.New, []byte(g.Secret), string(body))))
		return body, nil
	}
}

func bodyBase64(name string) sign {
	return func(g Signing, h http.Header, body []byte) ([]byte, error) {
		h.Set(name, base64.StdEncoding.EncodeToString(g.mac(sha256.New, []byte(g.Secret), string(body))))
		return body, nil
	}
}

func unsigned(why string) sign {
	return func(Signing, http.Header, []byte) ([]byte, error) {
		return nil, errors.New(why + ": set Server.SignEvent")
	}
}

func signStripe(g Signing, h http.Header, body []byte) ([]byte, error) {
	signed := fmt.Sprintf("%d.", g.At.Unix())
	h.Set("Stripe-Signature", fmt.Sprintf("t=%d,v1=%x", g.At.Unix(), g.mac(sha256.New, []byte(g.Secret), signed, string(body))))
	return body, nil
}

func signWorkOS(g Signing, h http.Header, body []byte) ([]byte, error) {
	signed := fmt.Sprintf("%d.", g.At.UnixMilli())
	h.Set("WorkOS-Signature", fmt.Sprintf("t=%d, v1=%x", g.At.UnixMilli(), g.mac(sha256.New, []byte(g.Secret), signed, string(body))))
	return body, nil
}

// signStandard signs by the Standard Webhooks specification: v1 under a shared secret ("whsec_" and base64),
// or v1a under the seed of a key pair ("whsk_" and base64).
func signStandard(g Signing, h http.Header, body []byte) ([]byte, error) {
	if text, is := strings.CutPrefix(g.Secret, "whsk_"); is {
		seed, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(seed) != ed25519.SeedSize && len(seed) != ed25519.PrivateKeySize {
			return nil, errors.New("the secret is not whsk_ and the base64 of an Ed25519 key")
		}
		signed := fmt.Appendf(nil, "%s.%d.%s", g.ID, g.At.Unix(), body)
		if g.Forged {
			signed = append(signed, "forged"...)
		}
		signature := ed25519.Sign(ed25519.NewKeyFromSeed(seed[:ed25519.SeedSize]), signed)
		g.standard(h, "v1a,"+base64.StdEncoding.EncodeToString(signature))
		return body, nil
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(g.Secret, "whsec_"))
	if err != nil {
		return nil, errors.New("the secret is not whsec_ and base64")
	}
	return g.standardUnder(key, h, body)
}

func (g Signing) standardUnder(key []byte, h http.Header, body []byte) ([]byte, error) {
	signed := fmt.Sprintf("%s.%d.", g.ID, g.At.Unix())
	g.standard(h, "v1,"+base64.StdEncoding.EncodeToString(g.mac(sha256.New, key, signed, string(body))))
	return body, nil
}

func (g Signing) standard(h http.Header, signature string) {
	h.Set("Webhook-Id", g.ID)
	h.Set("Webhook-Timestamp", fmt.Sprint(g.At.Unix()))
	h.Set("Webhook-Signature", signature)
}

// signIncrease takes the text of the secret for the key.
func signIncrease(g Signing, h http.Header, body []byte) ([]byte, error) {
	return g.standardUnder([]byte(g.Secret), h, body)
}

func signSquare(g Signing, h http.Header, body []byte) ([]byte, error) {
	h.Set("X-Square-Hmacsha256-Signature", base64.StdEncoding.EncodeToString(g.mac(sha256.New, []byte(g.Secret), g.URL, string(body))))
	return body, nil
}

// signWise signs under a private RSA key in PEM.
func signWise(g Signing, h http.Header, body []byte) ([]byte, error) {
	block, _ := pem.Decode([]byte(g.Secret))
	if block == nil {
		return nil, errors.New("the secret is not a private key in PEM")
	}
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err != nil {
		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return nil, errors.New("the secret is not a private key in PEM")
		}
		var is bool
		if key, is = parsed.(*rsa.PrivateKey); !is {
			return nil, errors.New("the secret is not an RSA key")
		}
	}
	sum := sha256.Sum256(body)
	if g.Forged {
		sum[0] ^= 1
	}
	signature, err := rsa.SignPKCS1v15(nil, key, crypto.SHA256, sum[:])
	h.Set("X-Signature-SHA256", base64.StdEncoding.EncodeToString(signature))
	return body, err
}

// signBraintree takes the public and the private key with a colon between them. The event
// goes in a form, in base64.
func signBraintree(g Signing, h http.Header, body []byte) ([]byte, error) {
	public, private, both := strings.Cut(g.Secret, ":")
	if !both {
		return nil, errors.New("the secret is not the public key, a colon and the private key")
	}
	key := sha1.Sum([]byte(private))
	payload := base64.StdEncoding.EncodeToString(body) + "\n"
	signature := public + "|" + hex.EncodeToString(g.mac(sha1.New, key[:], payload))
	h.Set("Content-Type", "application/x-www-form-urlencoded")
	return []byte(url.Values{"bt_signature": {signature}, "bt_payload": {payload}}.Encode()), nil
}

// signAdyen signs each item in a payment notification, and any other notification's body as a whole, under a
// hexadecimal key.
func signAdyen(g Signing, h http.Header, body []byte) ([]byte, error) {
	key, err := hex.DecodeString(g.Secret)
	if err != nil {
		return nil, errors.New("the secret is not hexadecimal")
	}
	var notice map[string]any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&notice); err != nil {
		return nil, err
	}
	items, is := notice["notificationItems"].([]any)
	if !is {
		h.Set("HmacSignature", base64.StdEncoding.EncodeToString(g.mac(sha256.New, key, string(body))))
		return body, nil
	}
	for _, item := range items {
		members, _ := item.(map[string]any)
		fields, is := members["NotificationRequestItem"].(map[string]any)
		if !is {
			return nil, errors.New("an item has no NotificationRequestItem")
		}
		var texts []string
		for _, path := range []string{
			"pspReference", "originalReference", "merchantAccountCode", "merchantReference", "amount.value", "amount.currency", "eventCode", "success",
		} {
			text := ""
			if found := scalars(fields, steps(path)); len(found) > 0 {
				text = fmt.Sprint(found[0])
			}
			texts = append(texts, text)
		}
		more, _ := fields["additionalData"].(map[string]any)
		if more == nil {
			more = map[string]any{}
		}
		more["hmacSignature"] = base64.StdEncoding.EncodeToString(g.mac(sha256.New, key, strings.Join(texts, ":")))
		fields["additionalData"] = more
	}
	return json.Marshal(notice)
}
