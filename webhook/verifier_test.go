package webhook_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/webhook"
)

func TestAGenuineRequestIsVerified(t *testing.T) {
	eachScheme(t, func(t *testing.T, s scheme) {
		now := time.Now()
		r := s.sign(s.secrets[0], s.body, now)
		m, err := s.verifier(t, s.secrets[0]).Verify(r, bodyOf(t, r))
		require.NoError(t, err)
		if s.timestamp {
			assert.Equal(t, now.Unix(), m.Timestamp.Unix())
		} else {
			assert.Zero(t, m.Timestamp)
		}
		assert.Equal(t, !s.hint, m.Evidence)
		m.Timestamp, m.Evidence = time.Time{}, false
		assert.Equal(t, s.message, m)
	})
}

func TestAnyOfSeveralSecretsMayHaveSigned(t *testing.T) {
	eachScheme(t, func(t *testing.T, s scheme) {
		v := s.verifier(t, s.secrets[0], s.secrets[1])
		for _, secret := range s.secrets {
			r := s.sign(secret, s.body, time.Now())
			_, err := v.Verify(r, bodyOf(t, r))
			assert.NoError(t, err)
		}
	})
}

func TestAnotherSecretsSignatureIsRefused(t *testing.T) {
	eachScheme(t, func(t *testing.T, s scheme) {
		r := s.sign(s.secrets[1], s.body, time.Now())
		m, err := s.verifier(t, s.secrets[0]).Verify(r, bodyOf(t, r))
		assert.ErrorIs(t, err, webhook.ErrSignature)
		assert.Zero(t, m)
	})
}

func TestAChangedByteOfTheBodyIsRefused(t *testing.T) {
	t.Parallel()
	eachScheme(t, func(t *testing.T, s scheme) {
		v := s.verifier(t, s.secrets[0])
		r := s.sign(s.secrets[0], s.body, time.Now())
		body := bodyOf(t, r)
		for i := range body {
			changed := bytes.Clone(body)
			changed[i] ^= 1
			_, err := v.Verify(r, changed)
			assert.Error(t, err, "byte %d", i)
		}
		for _, changed := range [][]byte{nil, {}, body[:len(body)-1], append(bytes.Clone(body), '1')} {
			_, err := v.Verify(r, changed)
			assert.Error(t, err, "%q", changed)
		}
	}, "adyen", "braintree") // they sign fields, which have tests of their own
}

func TestARequiredHeaderHasToBeThereOnce(t *testing.T) {
	eachScheme(t, func(t *testing.T, s scheme) {
		v := s.verifier(t, s.secrets[0])
		for _, name := range s.headers {
			for _, tc := range []struct {
				name   string
				values []string
			}{
				{"missing", nil},
				{"empty", []string{""}},
				{"of nothing but its length", []string{strings.Repeat("a", 1<<20)}},
				{"control characters", []string{"\x00\x01"}},
			} {
				r := s.sign(s.secrets[0], s.body, time.Now())
				r.Header[name] = tc.values
				_, err := v.Verify(r, bodyOf(t, r))
				assert.Error(t, err, "%s: %s", name, tc.name)
				assert.NotErrorIs(t, err, webhook.ErrTimestamp, "%s: %s", name, tc.name)
			}
			r := s.sign(s.secrets[0], s.body, time.Now())
			r.Header[name] = append(r.Header[name], r.Header[name]...)
			_, err := v.Verify(r, bodyOf(t, r))
			assert.ErrorIs(t, err, webhook.ErrMalformed, "%s repeated", name)
		}
		_, err := v.Verify(post(s.body), []byte(s.body))
		assert.ErrorIs(t, err, webhook.ErrMalformed)
	})
}

func TestErrorsNameTheSchemeAndNoSecrets(t *testing.T) {
	eachScheme(t, func(t *testing.T, s scheme) {
		v := s.verifier(t, s.secrets[0])
		check := func(r *http.Request, body []byte) {
			_, err := v.Verify(r, body)
			require.Error(t, err)
			e, ok := errors.AsType[*webhook.Error](err)
			require.True(t, ok)
			assert.Equal(t, s.name, e.Scheme)
			assert.ErrorIs(t, err, e.Kind)
			text := fmt.Sprintf("%v %+v %#v", err, err, v)
			assert.True(t, strings.HasPrefix(text, "webhook: "+s.name+": "), text)
			for _, secret := range []string{s.secrets[0], s.secrets[1], "confidential", "PSP", "looking for"} {
				assert.NotContains(t, text, secret)
			}
			for name, values := range r.Header {
				for _, value := range values {
					if len(value) > 5 && name != "Content-Type" {
						assert.NotContains(t, text, value)
					}
				}
			}
		}
		r := s.sign(s.secrets[1], s.body, time.Now())
		body := bodyOf(t, r)
		check(r, body)
		check(r, []byte("confidential: %zz;"))
		for _, name := range s.headers {
			r := s.sign(s.secrets[0], s.body, time.Now())
			for _, values := range [][]string{{"confidential"}, {"t=confidential"}, {"confidential|.%zz"}, nil} {
				r.Header[name] = values
				if _, err := v.Verify(r, body); err != nil {
					check(r, body)
				}
			}
		}
	})
}

func TestASecretHasToBeGiven(t *testing.T) {
	eachScheme(t, func(t *testing.T, s scheme) {
		without := [][]string{nil, {""}, {s.secrets[0], ""}, {s.secrets[0] + "\n"}, {" " + s.secrets[0]}}
		if s.name == "wise" {
			without = without[:3] // a public key may end in a line break, as a file does
		}
		for _, secrets := range without {
			v, err := s.make(secrets...)
			assert.Nil(t, v, "%q", secrets)
			require.Error(t, err, "%q", secrets)
			assert.Contains(t, err.Error(), "webhook: "+s.name)
			assert.NotContains(t, err.Error(), s.secrets[0])
			var told *webhook.SecretError
			require.ErrorAs(t, err, &told)
			assert.Equal(t, s.name, told.Scheme)
			assert.Equal(t, len(secrets), told.Given)
			assert.Equal(t, len(secrets), told.Number, "the last one is the wrong one, 0 if there is none")
		}
	})
}

func TestASecretThatCouldBeGuessedIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		make        func(...string) (*webhook.Verifier, error)
		short, long string
	}{
		"stripe":            {webhook.Stripe, "whsec_fifteen_b", "whsec_sixteen_by"},
		"gocardless":        {webhook.GoCardless, "fifteen bytes b", "sixteen bytes by"},
		"square":            {func(s ...string) (*webhook.Verifier, error) { return webhook.Square(squareURL, s...) }, "fifteen bytes b", "sixteen bytes by"},
		"twilio":            {func(s ...string) (*webhook.Verifier, error) { return webhook.Twilio("https://example.com", s...) }, "fifteen bytes b", "sixteen bytes by"},
		"adyen":             {webhook.Adyen, adyenKey1[:30], adyenKey1[:32]},
		"adyen platform":    {webhook.AdyenPlatform, adyenKey1[:30], adyenKey1[:32]},
		"checkout":          {webhook.Checkout, "fifteen bytes b", "sixteen bytes by"},
		"mollie":            {webhook.Mollie, "fifteen bytes b", "sixteen bytes by"},
		"klarna":            {webhook.Klarna, "fifteen bytes b", "sixteen bytes by"},
		"razorpay":          {webhook.Razorpay, "fifteen bytes b", "sixteen bytes by"},
		"modern treasury":   {webhook.ModernTreasury, "fifteen bytes b", "sixteen bytes by"},
		"dwolla":            {webhook.Dwolla, "fifteen bytes b", "sixteen bytes by"},
		"column":            {webhook.Column, "fifteen bytes b", "sixteen bytes by"},
		"shopify":           {webhook.Shopify, "fifteen bytes b", "sixteen bytes by"},
		"workos":            {webhook.WorkOS, "fifteen bytes b", "sixteen bytes by"},
		"increase":          {webhook.Increase, "whsec_fifteen_b", "whsec_sixteen_by"},
		"braintree":         {newBraintree, "fifteen bytes b", "sixteen bytes by"},
		"standard webhooks": {webhook.StandardWebhooks, "whsec_ZmlmdGVlbiBieXRlcyBi", "whsec_c2l4dGVlbiBieXRlcyBieQ=="},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := tc.make(tc.long)
			require.NoError(t, err)
			require.NotNil(t, v)
			v, err = tc.make(tc.long, tc.short)
			var told *webhook.SecretError
			require.ErrorAs(t, err, &told)
			assert.Nil(t, v)
			assert.Equal(t, webhook.SecretError{Scheme: name, Number: 2, Given: 2, Reason: "its key has 15 bytes, fewer than 16"}, *told)
			assert.NotContains(t, err.Error(), tc.short)
		})
	}
	_, err := newPayPal("WEBHOOK-ID")
	assert.NoError(t, err, "what is no secret has any length")
}

// The timestamp may lie within the tolerance on either side.
func TestTimestampWithinTheTolerance(t *testing.T) {
	t.Parallel()
	eachScheme(t, func(t *testing.T, s scheme) {
		most := cmp.Or(s.tolerance, 5*time.Minute)
		for _, tc := range []struct {
			name      string
			tolerance time.Duration
			age       time.Duration
			late      bool
		}{
			{"now", 0, 0, false},
			{"as old as may be", 0, most, false},
			{"too old", 0, most + time.Second, true},
			{"as new as may be", 0, -most, false},
			{"too new", 0, -most - time.Second, true},
			{"older than a tolerance of its own", time.Hour, time.Hour + time.Second, true},
			{"within a tolerance of its own", time.Hour, time.Hour, false},
			{"a short tolerance", time.Second, 2 * time.Second, true},
			{"years old", 0, 20 * 365 * 24 * time.Hour, true},
			{"years old, unchecked", -1, 20 * 365 * 24 * time.Hour, false},
			{"years ahead, unchecked", -1, -20 * 365 * 24 * time.Hour, false},
		} {
			synctest.Test(t, func(t *testing.T) {
				v := s.verifier(t, s.secrets[0])
				v.Tolerance = tc.tolerance
				r := s.sign(s.secrets[0], s.body, time.Now().Add(-tc.age))
				_, err := v.Verify(r, bodyOf(t, r))
				if tc.late && s.timestamp {
					assert.ErrorIs(t, err, webhook.ErrTimestamp, tc.name)
				} else {
					assert.NoError(t, err, tc.name)
				}
			})
		}
	})
}

func TestOnlyAGenuineRequestIsCalledTooOld(t *testing.T) {
	eachScheme(t, func(t *testing.T, s scheme) {
		r := s.sign(s.secrets[1], s.body, time.Now().Add(-time.Hour))
		_, err := s.verifier(t, s.secrets[0]).Verify(r, bodyOf(t, r))
		assert.ErrorIs(t, err, webhook.ErrSignature)
		assert.NotErrorIs(t, err, webhook.ErrTimestamp)
	})
}

func TestAVerifierServesManyRequestsAtOnce(t *testing.T) {
	eachScheme(t, func(t *testing.T, s scheme) {
		v := s.verifier(t, s.secrets[0])
		var wait sync.WaitGroup
		for i := range 8 {
			secret := s.secrets[i%2]
			wait.Go(func() {
				r := s.sign(secret, s.body, time.Now())
				_, err := v.Verify(r, bodyOf(t, r))
				assert.Equal(t, secret == s.secrets[0], err == nil)
			})
		}
		wait.Wait()
	})
}

func TestZeroVerifierRefuses(t *testing.T) {
	for _, v := range []*webhook.Verifier{nil, {}} {
		_, err := v.Verify(post(""), nil)
		assert.Error(t, err)
	}
}

// A body without identifiers is still verified.
func TestVerifiedWithoutIdentifiers(t *testing.T) {
	for _, body := range []string{"no JSON", `[]`, `{}`, `{"id":7,"event_id":null,"events":[{"id":""}]}`, `{"id":"a"`, `{"id":"a","ID":"b"}`, `{"events":[{"id":"EV1"},{}]}`} {
		eachScheme(t, func(t *testing.T, s scheme) {
			r := s.sign(s.secrets[0], body, time.Now())
			m, err := s.verifier(t, s.secrets[0]).Verify(r, []byte(body))
			require.NoError(t, err)
			assert.Empty(t, m.Events, body)
			assert.Equal(t, s.message.ID, m.ID)
		}, "adyen", "twilio", "braintree")
	}
}

// docs/webhooks.md has a row for every scheme, and says whether a message of it is evidence or a hint.
func TestTheDocumentListsEveryScheme(t *testing.T) {
	text, err := os.ReadFile("../docs/webhooks.md")
	require.NoError(t, err)
	want := map[string]string{"mollie classic": "hint", "paypal ipn": "hint"}
	for _, s := range schemes() {
		want[s.name] = "evidence"
		if s.hint {
			want[s.name] = "hint"
		}
	}
	stands := map[string]string{}
	for line := range strings.SplitSeq(string(text), "\n") {
		if cells := strings.Split(line, "|"); len(cells) == 7 && strings.Contains(cells[1], "`") {
			stands[strings.TrimSpace(cells[2])] = strings.TrimSpace(cells[4])
		}
	}
	assert.Equal(t, want, stands)
}
