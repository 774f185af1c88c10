package webhook_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/webhook"
)

func TestStripeSignatureHeaders(t *testing.T) {
	const body = `{"id":"evt_1"}`
	sign := func(secret, timestamp string) string {
		return hex.EncodeToString(mac(sha256.New, []byte(secret), timestamp+"."+body))
	}
	good, other := sign("whsec_one_of_these_tests", "1614265330"), sign("whsec_made_up_elsewhere", "1614265330")
	for _, tc := range []struct {
		name, header string
		want         error
	}{
		{"one signature", "t=1614265330,v1=" + good, nil},
		{"two while a secret is rotated, the good one last", "t=1614265330,v1=" + other + ",v1=" + good, nil},
		{"two, the good one first", "t=1614265330,v1=" + good + ",v1=" + other, nil},
		{"spaces after commas", "t=1614265330, v1=" + good, nil},
		{"the timestamp last", "v1=" + good + ",t=1614265330", nil},
		{"an unknown scheme beside it", "t=1614265330,v9=zz,v1=" + good + ",v2=" + other, nil},
		{"a signature that is not hexadecimal beside it", "t=1614265330,v1=zz,v1=,v1=" + good, nil},
		{"upper case", "t=1614265330,v1=" + strings.ToUpper(good), nil},

		{"a signature of another secret", "t=1614265330,v1=" + other, webhook.ErrSignature},
		{"no signature", "t=1614265330", webhook.ErrSignature},
		{"the good one under v0 alone", "t=1614265330,v0=" + good, webhook.ErrSignature},
		{"the good one under V1", "t=1614265330,V1=" + good, webhook.ErrSignature},
		{"the beginning of the good one", "t=1614265330,v1=" + good[:62], webhook.ErrSignature},
		{"another timestamp", "t=1614265331,v1=" + good, webhook.ErrSignature},
		{"the same timestamp written otherwise", "t=01614265330,v1=" + good, webhook.ErrSignature},

		{"no timestamp", "v1=" + good, webhook.ErrMalformed},
		{"an empty timestamp", "t=,v1=" + good, webhook.ErrMalformed},
		{"two timestamps", "t=1614265330,t=1614265330,v1=" + good, webhook.ErrMalformed},
		{"a signed timestamp with a sign", "t=+1614265330,v1=" + sign("whsec_one_of_these_tests", "+1614265330"), webhook.ErrMalformed},
		{"a signed timestamp before 1970", "t=-1,v1=" + sign("whsec_one_of_these_tests", "-1"), webhook.ErrMalformed},
		{"a signed timestamp after the year 9999", "t=253402300800,v1=" + sign("whsec_one_of_these_tests", "253402300800"), webhook.ErrMalformed},
		{"a signed timestamp beyond an int64", "t=99999999999999999999,v1=" + sign("whsec_one_of_these_tests", "99999999999999999999"), webhook.ErrMalformed},
		{"a fraction", "t=1614265330.5,v1=" + good, webhook.ErrMalformed},
		{"an item without a value", "t=1614265330,v1", webhook.ErrMalformed},
		{"more than Stripe ever sends", "t=1614265330,v1=" + good + strings.Repeat(",v1="+other, 200), webhook.ErrMalformed},
		{"commas", ",,,", webhook.ErrMalformed},
		{"words", "signature", webhook.ErrMalformed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v, err := webhook.Stripe("whsec_one_of_these_tests", "whsec_two_of_these_tests")
			require.NoError(t, err)
			v.Tolerance = -1
			_, err = v.Verify(post(body, "Stripe-Signature", tc.header), []byte(body))
			if tc.want == nil {
				assert.NoError(t, err)
			} else {
				assert.ErrorIs(t, err, tc.want)
			}
		})
	}
}
