package webhook_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/webhook"
)

const payPalBody = `{"id":"WH-1","event_type":"PAYMENT.CAPTURE.COMPLETED"}`

// A certificate is accepted only if it is PayPal's own and valid.
func TestPayPalCertificateIsItsOwnAndValid(t *testing.T) {
	public := &payPalKeys()[1].PublicKey
	elliptical, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	authority := payPalRoot()
	good := authority.issue(payPalName, public, always)
	sandbox := authority.issue("messageverificationcerts.sandbox.paypal.com", public, always)
	now := time.Now()
	unreachable := errors.New("unreachable")
	for _, tc := range []struct {
		name        string
		sandbox     bool
		roots       *x509.CertPool
		certificate []byte
		err         error
		want        error
	}{
		{name: "good", certificate: good},
		{name: "with others behind it", certificate: append(bytes.Clone(good), sandbox...)},
		{name: "the sandbox's, asked for", sandbox: true, certificate: sandbox},

		{name: "the sandbox's", certificate: sandbox, want: webhook.ErrCertificate},
		{name: "the live one in the sandbox", sandbox: true, certificate: good, want: webhook.ErrCertificate},
		{name: "of another name", certificate: authority.issue("paypal.com.example.com", public, always), want: webhook.ErrCertificate},
		{name: "of any name below PayPal's", certificate: authority.issue("www.paypal.com", public, always), want: webhook.ErrCertificate},
		{name: "of an authority that is not trusted", roots: x509.NewCertPool(), certificate: good, want: webhook.ErrCertificate},
		{name: "expired", certificate: authority.issue(payPalName, public, [2]time.Time{now.Add(-2 * time.Hour), now.Add(-time.Hour)}), want: webhook.ErrCertificate},
		{name: "not yet valid", certificate: authority.issue(payPalName, public, [2]time.Time{now.Add(time.Hour), now.Add(2 * time.Hour)}), want: webhook.ErrCertificate},
		{name: "of an elliptic curve", certificate: authority.issue(payPalName, &elliptical.PublicKey, always), want: webhook.ErrCertificate},
		{name: "of another key", certificate: authority.issue(payPalName, &payPalKeys()[0].PublicKey, always), want: webhook.ErrSignature},
		{name: "behind another", certificate: append(bytes.Clone(sandbox), good...), want: webhook.ErrCertificate},
		{name: "nothing", want: webhook.ErrCertificate},
		{name: "no PEM", certificate: []byte("<html>not found</html>"), want: webhook.ErrCertificate},
		{name: "a key in PEM", certificate: bytes.ReplaceAll(good, []byte("CERTIFICATE"), []byte("PUBLIC KEY")), want: webhook.ErrCertificate},
		{name: "cut", certificate: good[:len(good)/2], want: webhook.ErrCertificate},
		{name: "endless", certificate: append(bytes.Clone(good), make([]byte, 64<<10)...), want: webhook.ErrCertificate},
		{name: "unreachable", err: unreachable, want: webhook.ErrCertificate},
	} {
		t.Run(tc.name, func(t *testing.T) {
			roots := tc.roots
			if roots == nil {
				roots = authority.roots
			}
			v, err := webhook.PayPal(webhook.PayPalConfig{
				WebhookIDs: []string{"1JE4291016473214C"}, Roots: roots, Sandbox: tc.sandbox,
				Certificate: func(context.Context, string) ([]byte, error) { return tc.certificate, tc.err },
			})
			require.NoError(t, err)
			_, err = v.Verify(signPayPal("1JE4291016473214C", payPalBody, now), []byte(payPalBody))
			if tc.want == nil {
				assert.NoError(t, err)
				return
			}
			assert.ErrorIs(t, err, tc.want)
			if tc.err != nil {
				assert.ErrorIs(t, err, tc.err)
			}
		})
	}
}

// PayPal's certificate is fetched from PayPal alone.
func TestPayPalCertificateComesFromPayPalOnly(t *testing.T) {
	type key struct{}
	var fetched []string
	v, err := webhook.PayPal(webhook.PayPalConfig{
		WebhookIDs: []string{"1JE4291016473214C"}, Roots: payPalRoot().roots,
		Certificate: func(ctx context.Context, url string) ([]byte, error) {
			assert.Equal(t, "of the request", ctx.Value(key{}))
			fetched = append(fetched, url)
			return payPalRoot().issue(payPalName, &payPalKeys()[1].PublicKey, always), nil
		},
	})
	require.NoError(t, err)
	for _, tc := range []struct {
		url     string
		trusted bool
	}{
		{"https://api.paypal.com/v1/notifications/certs/CERT-1", true},
		{"https://api.sandbox.paypal.com/v1/notifications/certs/CERT-1", true},
		{"https://API.PAYPAL.COM/v1/notifications/certs/CERT-1", true},
		{"https://api.paypal.com:443/v1/notifications/certs/CERT-1", true},
		{"https://paypal.com/certs", true},

		{"http://api.paypal.com/v1/notifications/certs/CERT-1", false},
		{"https://api.paypal.com.example.com/certs", false},
		{"https://apipaypal.com/certs", false},
		{"https://example.com/api.paypal.com", false},
		{"https://example.com?.paypal.com", false},
		{"https://example.com#.paypal.com", false},
		{"https://example.com\\.paypal.com", false},
		{"https://api.paypal.com@example.com/certs", false},
		{"https://user:word@api.paypal.com/certs", false},
		{"https://api.paypal.com:8443/certs", false},
		{"https://api.paypal.com./certs", false},
		{"https://127.0.0.1/certs", false},
		{"//api.paypal.com/certs", false},
		{"file:///etc/.paypal.com", false},
		{"api.paypal.com", false},
		{"https://%zz.paypal.com", false},
		{"https://api.paypal.com\n.example.com", false},
	} {
		t.Run(tc.url, func(t *testing.T) {
			fetched = nil
			r := signPayPal("1JE4291016473214C", payPalBody, time.Now())
			r.Header.Set("Paypal-Cert-Url", tc.url)
			_, err := v.Verify(r.WithContext(context.WithValue(r.Context(), key{}, "of the request")), []byte(payPalBody))
			if tc.trusted {
				assert.NoError(t, err)
				assert.Len(t, fetched, 1)
				return
			}
			require.Error(t, err)
			assert.NotErrorIs(t, err, webhook.ErrSignature)
			assert.Empty(t, fetched)
		})
	}
}

func TestPayPalHeadersInAnotherFormAreRefused(t *testing.T) {
	v, err := newPayPal("1JE4291016473214C")
	require.NoError(t, err)
	for name, values := range map[string][]string{
		"Paypal-Transmission-Id":   {payPalTransmission + "|2016-02-18T20:01:35Z", "|"},
		"Paypal-Transmission-Time": {"1614265330", "2016-02-18", "2016-02-18 20:01:35", "yesterday", "2016-02-18T20:01:35Z|1JE4291016473214C"},
		"Paypal-Transmission-Sig":  {"***", "MIIB"[:3]},
		"Paypal-Auth-Algo":         {"SHA1withRSA", "none", "SHA256withRSA|"},
	} {
		for _, value := range values {
			r := signPayPal("1JE4291016473214C", payPalBody, time.Now())
			r.Header.Set(name, value)
			_, err := v.Verify(r, []byte(payPalBody))
			assert.ErrorIs(t, err, webhook.ErrMalformed, "%s: %s", name, value)
		}
	}
	r := signPayPal("1JE4291016473214C", payPalBody, time.Now())
	r.Header.Set("Paypal-Auth-Algo", "sha256WithRSA")
	_, err = v.Verify(r, []byte(payPalBody))
	assert.NoError(t, err)
}

func TestPayPalsConfigurationHasToBeComplete(t *testing.T) {
	fetch := func(context.Context, string) ([]byte, error) { return nil, nil }
	for _, config := range []webhook.PayPalConfig{{}, {WebhookIDs: []string{"1JE4291016473214C"}}, {Certificate: fetch}, {WebhookIDs: []string{""}, Certificate: fetch}} {
		_, err := webhook.PayPal(config)
		assert.ErrorContains(t, err, "webhook: paypal: ")
	}
}

// PayPal's signature also matches any other body of the same checksum. That is why PayPal's documentation here asks
// for more than a signature. The scheme signs only 32 bits of the body, and any sender can match these.
func TestPayPalBodyOfTheSameChecksum(t *testing.T) {
	forged := []byte(`{"id":"WH-1","event_type":"PAYMENT.CAPTURE.REFUNDED","pad":"`)
	// Four bytes bring any CRC-32 to any other: it is linear, so they are solved for.
	want := crc32.ChecksumIEEE([]byte(payPalBody))
	table := crc32.IEEETable
	state := ^want
	for range 4 {
		for i, entry := range table {
			if entry>>24 == state>>24 {
				state = (state^entry)<<8 | uint32(i)
				break
			}
		}
	}
	forged = binary.LittleEndian.AppendUint32(forged, state^^crc32.ChecksumIEEE(forged))
	require.Equal(t, want, crc32.ChecksumIEEE(forged))

	v, err := newPayPal("1JE4291016473214C")
	require.NoError(t, err)
	m, err := v.Verify(signPayPal("1JE4291016473214C", payPalBody, time.Now()), forged)
	require.NoError(t, err)
	assert.Equal(t, payPalTransmission, m.ID, "the one thing to tell it from the genuine one")
}

// PayPal's repeats after an outage are verified, since a repeat must not be lost. PayPal repeats for three days, and
// may keep the first time stamp.
func TestPayPalRepeatsAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, err := newPayPal("1JE4291016473214C")
		require.NoError(t, err)
		r := signPayPal("1JE4291016473214C", payPalBody, time.Now())
		<-time.After(3 * 24 * time.Hour)
		m, err := v.Verify(r, []byte(payPalBody))
		require.NoError(t, err)
		assert.Equal(t, payPalTransmission, m.ID, "by which a replay is told")
		assert.False(t, m.Evidence, "a checksum of the body is signed, and no hash")
		v.Tolerance = time.Hour
		_, err = v.Verify(r, []byte(payPalBody))
		assert.ErrorIs(t, err, webhook.ErrTimestamp, "the user's own")
	})
}
