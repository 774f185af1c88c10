package webhook

import (
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// PayPalConfig configures [PayPal].
type PayPalConfig struct {
	// WebhookIDs are PayPal's IDs for the endpoint's webhooks. PayPal signs the webhook's ID, so a message to another
	// merchant's webhook is rejected. An event's ID, in the body, is no webhook ID. At least one is required.
	WebhookIDs []string

	// Certificate returns the content at url: the signing certificate in PEM, then any certificates between the signing
	// certificate and a root. The request names url, which is always an https URL at paypal.com or a subdomain.
	//
	// Certificate is called for every request, so cache the results by url, within a bound. Certificate should follow no
	// redirect, and read no more than 64 KiB. The error becomes the cause of an ErrCertificate. Required.
	Certificate func(ctx context.Context, url string) ([]byte, error)

	// Roots are the trusted certificates. PayPal's own Java SDK trusts one intermediate, DigiCert SHA2 Extended
	// Validation Server CA. The download in the SDK's test holds the signing certificate alone (read in
	// PayPal-Java-SDK 2a34212). If you get such a download, put the intermediate here. Nil means the system's roots.
	Roots *x509.CertPool

	// Sandbox expects the certificate of PayPal's sandbox in place of the live certificate.
	Sandbox bool
}

// PayPal verifies PayPal's webhooks without asking PayPal, except for the certificate. The error names the missing part of
// the configuration.
//
// Paypal-Transmission-Sig is base64 of RSA-SHA256 (PKCS #1 v1.5) over "transmission ID|transmission time|webhook
// ID|CRC-32 of the raw body in decimal". The headers are documented. The signed text and the certificate's name are
// read in PayPal-Java-SDK 2a34212, Event.java and SSLUtil.java: messageverificationcerts.paypal.com or
// .sandbox.paypal.com. Paypal-Auth-Algo has to be SHA256withRSA. The certificate has to come from paypal.com, to bear
// this name, to be valid now and to chain to a root.
//
// A CRC is a checksum and no hash. An attacker who has seen one request can make another body under the same signature, so
// the message is a hint. Reject a transmission ID seen before (Message.ID). Before money moves, ask PayPal's API for the
// resource that the event names. Message.Events is the id in the body.
//
// PayPal delivers up to 25 times over three days (documented). A new timestamp for each delivery is not confirmed, and a
// repeat must not be lost. So a timestamp may be four days old, unless Verifier.Tolerance is set.
func PayPal(config PayPalConfig) (*Verifier, error) {
	const scheme = "paypal"
	ids, err := newKeys(scheme, config.WebhookIDs, asGiven) // which are no secrets
	if err != nil {
		return nil, err
	}
	if config.Certificate == nil {
		return nil, errors.New("webhook: paypal: Certificate is required")
	}
	name := "messageverificationcerts.paypal.com"
	if config.Sandbox {
		name = "messageverificationcerts.sandbox.paypal.com"
	}
	return &Verifier{scheme: scheme, tolerance: 4 * 24 * time.Hour, hint: true, verify: func(r *http.Request, body []byte) (Message, error) {
		transmission, err := parsePayPalTransmission(r.Header)
		if err != nil {
			return Message{}, err
		}
		chain, err := config.fetch(r.Context(), transmission.certificateURL)
		if err != nil {
			return Message{}, &Error{Kind: ErrCertificate, Err: err}
		}
		key, err := payPalKey(chain, name, config.Roots)
		if err != nil {
			return Message{}, &Error{Kind: ErrCertificate, Err: err}
		}
		for _, id := range ids {
			signed := fmt.Sprintf("%s|%s|%s|%d", transmission.id, transmission.timeText, id, crc32.ChecksumIEEE(body))
			sum := sha256.Sum256([]byte(signed))
			if rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], transmission.signature) == nil {
				return Message{ID: transmission.id, Timestamp: transmission.time, Events: member(body, "id")}, nil
			}
		}
		return Message{}, noMatch()
	}}, nil
}

type payPalTransmission struct {
	id             string
	timeText       string // as it was signed
	time           time.Time
	signature      []byte
	certificateURL string
}

func parsePayPalTransmission(h http.Header) (t payPalTransmission, err error) {
	if t.id, err = header(h, "Paypal-Transmission-Id"); err != nil {
		return t, err
	}
	if strings.Contains(t.id, "|") {
		return t, malformed("Paypal-Transmission-Id contains |, which separates the signed text")
	}
	if t.timeText, err = header(h, "Paypal-Transmission-Time"); err != nil {
		return t, err
	}
	if t.time, err = time.Parse(time.RFC3339, t.timeText); err != nil {
		return t, malformed("Paypal-Transmission-Time is not a time by RFC 3339")
	}
	if t.signature, err = base64Header(h, "Paypal-Transmission-Sig"); err != nil {
		return t, err
	}
	algorithm, err := header(h, "Paypal-Auth-Algo")
	if err != nil {
		return t, err
	}
	if !strings.EqualFold(algorithm, "SHA256withRSA") {
		return t, malformed("Paypal-Auth-Algo is not SHA256withRSA")
	}
	address, err := header(h, "Paypal-Cert-Url")
	if err != nil {
		return t, err
	}
	t.certificateURL, err = payPalURL(address)
	return t, err
}

// payPalURL accepts only URLs at PayPal for the certificate. An attacker who could name another host would make the
// caller's server call the host.
func payPalURL(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", malformed("Paypal-Cert-Url is not a URL")
	}
	host := strings.ToLower(u.Hostname())
	switch {
	case u.Scheme != "https", u.User != nil, u.Port() != "" && u.Port() != "443",
		host != "paypal.com" && !strings.HasSuffix(host, ".paypal.com"):
		return "", &Error{Kind: ErrCertificate, Reason: "Paypal-Cert-Url is not an https URL of paypal.com"}
	}
	return u.String(), nil
}

// fetch returns the certificates at url, the signing one first.
func (c PayPalConfig) fetch(ctx context.Context, url string) (chain []*x509.Certificate, err error) {
	rest, err := c.Certificate(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("fetching it: %w", err)
	}
	if len(rest) > 64<<10 {
		return nil, errors.New("it is larger than any certificate")
	}
	for {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		if block == nil {
			break
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if block.Type != "CERTIFICATE" || err != nil {
			return nil, errors.New("it is not a certificate in PEM")
		}
		chain = append(chain, certificate)
	}
	if len(chain) == 0 {
		return nil, errors.New("it is not a certificate in PEM")
	}
	return chain, nil
}

func payPalKey(chain []*x509.Certificate, name string, roots *x509.CertPool) (*rsa.PublicKey, error) {
	intermediates := x509.NewCertPool()
	for _, certificate := range chain[1:] {
		intermediates.AddCert(certificate)
	}
	if _, err := chain[0].Verify(x509.VerifyOptions{
		DNSName:       name,
		Roots:         roots,
		Intermediates: intermediates,
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageAny}, // none is defined for signing messages
	}); err != nil {
		return nil, err
	}
	key, ok := chain[0].PublicKey.(*rsa.PublicKey)
	if !ok {
		return nil, errors.New("its key is not an RSA key")
	}
	return key, nil
}
