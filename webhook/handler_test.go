package webhook_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/webhook"
)

func TestHandlerPassesOnVerifiedRequests(t *testing.T) {
	t.Parallel()
	eachScheme(t, func(t *testing.T, s scheme) {
		r := s.sign(s.secrets[0], s.body, time.Now())
		body := string(bodyOf(t, r))
		r.Body = io.NopCloser(iotest.OneByteReader(strings.NewReader(body)))
		r.ContentLength = -1
		served := false
		h := &webhook.Handler{
			Verifier: s.verifier(t, s.secrets[0]),
			Next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				served = true
				got, err := io.ReadAll(r.Body)
				assert.NoError(t, err)
				assert.Equal(t, body, string(got))
				assert.EqualValues(t, len(body), r.ContentLength)
				m, ok := webhook.MessageOf(r.Context())
				assert.True(t, ok)
				assert.Equal(t, s.message.ID, m.ID)
				assert.Equal(t, s.message.Events, m.Events)
				assert.Equal(t, s.timestamp, !m.Timestamp.IsZero())
				w.WriteHeader(http.StatusAccepted)
			}),
			Refused: func(_ *http.Request, err error) { assert.NoError(t, err) },
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		assert.True(t, served)
		assert.Equal(t, http.StatusAccepted, w.Code)
	})
}

func TestHandlerRefusesOtherRequests(t *testing.T) {
	now := time.Now()
	cut := errors.New("connection reset")
	const body = `{"id":"evt_1","note":"confidential"}`
	good := func() *http.Request { return signStripe("whsec_one_of_these_tests", body, now) }
	stripe := func() (*webhook.Verifier, error) { return webhook.Stripe("whsec_one_of_these_tests") }
	for _, tc := range []struct {
		name    string
		make    func() (*webhook.Verifier, error)
		request func() *http.Request
		maxBody int64
		status  int
		want    error
	}{
		{"no signature", stripe, func() *http.Request { return post(body) }, 0, 400, webhook.ErrMalformed},
		{"another secret", stripe, func() *http.Request { return signStripe("whsec_two_of_these_tests", body, now) }, 0, 403, webhook.ErrSignature},
		{"too old", stripe, func() *http.Request { return signStripe("whsec_one_of_these_tests", body, now.Add(-time.Hour)) }, 0, 403, webhook.ErrTimestamp},
		{"too large", stripe, good, int64(len(body)) - 1, 413, webhook.ErrTooLarge},
		{"too large for the default", stripe, func() *http.Request {
			return signStripe("whsec_one_of_these_tests", strings.Repeat(" ", webhook.DefaultMaxBody+1), now)
		}, 0, 413, webhook.ErrTooLarge},
		{"cut", stripe, func() *http.Request {
			r := good()
			r.Body = io.NopCloser(iotest.ErrReader(cut))
			return r
		}, 0, 400, cut},
		{"gocardless asks for a status", func() (*webhook.Verifier, error) { return webhook.GoCardless("one secret of GoCardless") },
			func() *http.Request { return signGoCardless("two", body, now) }, 0, 498, webhook.ErrSignature},
		{"no certificate", func() (*webhook.Verifier, error) {
			return webhook.PayPal(webhook.PayPalConfig{WebhookIDs: []string{"1"}, Certificate: func(context.Context, string) ([]byte, error) { return nil, cut }})
		}, func() *http.Request { return signPayPal("1", body, now) }, 0, 503, webhook.ErrCertificate},
		{"a verifier that no constructor made", func() (*webhook.Verifier, error) { return &webhook.Verifier{}, nil }, good, 0, 500, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v, err := tc.make()
			require.NoError(t, err)
			var refused error
			h := &webhook.Handler{
				Verifier: v, MaxBody: tc.maxBody,
				Next:    http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was let through") }),
				Refused: func(_ *http.Request, err error) { refused = err },
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, tc.request())
			assert.Equal(t, tc.status, w.Code)
			assert.NotContains(t, w.Body.String(), "confidential")
			assert.NotContains(t, w.Body.String(), "signature")
			require.Error(t, refused)
			if tc.want != nil {
				assert.ErrorIs(t, refused, tc.want)
			}

			h.Refused = nil
			w = httptest.NewRecorder()
			h.ServeHTTP(w, tc.request())
			assert.Equal(t, tc.status, w.Code, "the same without anybody to tell")
		})
	}
}

func TestABodyOfJustTheLimitIsRead(t *testing.T) {
	const body = `{"id":"evt_1"}`
	v, err := webhook.Stripe("whsec_one_of_these_tests")
	require.NoError(t, err)
	h := &webhook.Handler{Verifier: v, MaxBody: int64(len(body)), Next: http.NotFoundHandler()}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, signStripe("whsec_one_of_these_tests", body, time.Now()))
	assert.Equal(t, http.StatusNotFound, w.Code)
}

func TestTheHandlerWorksBehindARealServer(t *testing.T) {
	const body = `{"id":"evt_1"}`
	v, err := webhook.Stripe("whsec_one_of_these_tests")
	require.NoError(t, err)
	server := httptest.NewServer(&webhook.Handler{Verifier: v, Next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(w, r.Body)
		assert.NoError(t, err)
	})})
	defer server.Close()
	for _, tc := range []struct {
		secret string
		status int
	}{{"whsec_one_of_these_tests", 200}, {"whsec_two_of_these_tests", 403}} {
		signed := signStripe(tc.secret, body, time.Now())
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, signed.Body)
		require.NoError(t, err)
		r.Header = signed.Header
		resp, err := server.Client().Do(r)
		require.NoError(t, err)
		answer, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, tc.status, resp.StatusCode)
		assert.Equal(t, tc.status == 200, string(answer) == body)
	}
}

func TestAContextFromElsewhereHasNoMessage(t *testing.T) {
	_, ok := webhook.MessageOf(t.Context())
	assert.False(t, ok)
}
