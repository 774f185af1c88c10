package consume_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/consume"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
	"github.com/onceward/onceward/webhook"
)

// hook is a provider's endpoint. A consumer handles each of its webhooks once.
type hook struct {
	*books
	t        *testing.T
	provider string
	secret   string
	handler  http.Handler
	client   *hearing
}

// hearing is a journal as the client has it, which may fail to find an event's operation.
type hearing struct {
	*sqlite.Journal
	fails  atomic.Bool
	looked atomic.Int64
}

func (h *hearing) FindBy(ctx context.Context, provider string, by machine.By, value string) ([]machine.Match, error) {
	if h.fails.Load() {
		return nil, errors.New("the disk is on fire")
	}
	h.looked.Add(1)
	return h.Journal.FindBy(ctx, provider, by, value)
}

// deliver sends a signed body.
func (h *hook) deliver(body string) int {
	h.t.Helper()
	r := httptest.NewRequest("POST", "/hooks", strings.NewReader(body))
	signed, err := providertest.Sign(h.provider, providertest.Signing{Secret: h.secret, At: time.Now()}, r.Header, []byte(body))
	require.NoError(h.t, err)
	r.Body = io.NopCloser(strings.NewReader(string(signed)))
	w := httptest.NewRecorder()
	h.handler.ServeHTTP(w, r)
	return w.Code
}

func openHook(t *testing.T, do func(ctx context.Context, tx journal.Tx, m consume.Message, body []byte) error) *hook {
	t.Helper()
	b := open(t)
	hears := &hearing{Journal: b.journal}
	client, err := onceward.New(onceward.Config{
		Journal: hears, Providers: []providers.Provider{providers.Stripe()}, Logger: slog.New(slog.DiscardHandler),
		Reconcile: &onceward.Reconcile{}, Authorize: func(*http.Request) error { return nil },
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Shutdown(context.Background()) })
	secret := "whsec_0123456789abcdef"
	v, err := webhook.Stripe(secret)
	require.NoError(t, err)
	return &hook{b, t, "stripe", secret, client.WebhookHandler("stripe", v, b.WebhookHandler(consume.Events("stripe"), do)), hears}
}

// A webhook that the provider delivers again takes effect once, and every delivery is acknowledged.
func TestWebhook(t *testing.T) {
	t.Parallel()
	var h *hook
	fails := true
	h = openHook(t, func(ctx context.Context, tx journal.Tx, m consume.Message, body []byte) error {
		assert.Contains(t, string(body), m.ID)
		if err := book(m.ID)(ctx, tx); err != nil {
			return err
		}
		if fails {
			return errors.New("not today")
		}
		return nil
	})
	event := `{"id":"evt_1","object":"event","type":"charge.succeeded","data":{"object":{"id":"ch_1","object":"charge"}}}`
	assert.Equal(t, http.StatusInternalServerError, h.deliver(event))
	assert.Empty(t, h.ledger())
	fails = false
	for range 3 {
		assert.Equal(t, http.StatusNoContent, h.deliver(event))
	}
	assert.Equal(t, http.StatusNoContent, h.deliver(strings.ReplaceAll(event, "evt_1", "evt_2")))
	assert.Equal(t, []string{"evt_1", "evt_2"}, h.ledger())
	forged := httptest.NewRecorder()
	h.handler.ServeHTTP(forged, httptest.NewRequest("POST", "/hooks", strings.NewReader(strings.ReplaceAll(event, "evt_1", "evt_3"))))
	assert.GreaterOrEqual(t, forged.Code, 400)
	assert.Len(t, h.ledger(), 2)
}

// A delivery of several events does each once. If one fails, the next delivery does that one alone.
func TestWebhookOfSeveralEvents(t *testing.T) {
	t.Parallel()
	b := open(t)
	fails := "b"
	id := func(webhook.Message, []byte) (messages []consume.Message, err error) {
		for _, id := range []string{"a", "b", "c"} {
			messages = append(messages, message(id))
		}
		return messages, nil
	}
	h := b.verified(consume.Identity(id), func(ctx context.Context, tx journal.Tx, m consume.Message, _ []byte) error {
		if m.ID == fails {
			return errors.New("not today")
		}
		return book(m.ID)(ctx, tx)
	})
	assert.Equal(t, http.StatusInternalServerError, ask(h, "body"))
	assert.Equal(t, []string{"a", "c"}, b.ledger())
	fails = ""
	assert.Equal(t, http.StatusNoContent, ask(h, "body"))
	assert.Equal(t, []string{"a", "c", "b"}, b.ledger())
}

// WholeBody identifies the messages in a scheme without identifiers by their body. A hint is never consumed, so a
// stranger who sends an identifier first marks nothing as done.
func TestIdentities(t *testing.T) {
	t.Parallel()
	evidence, hint := webhook.Message{Evidence: true}, webhook.Message{ID: "m-1", Events: []string{"e-1"}}
	for name, row := range map[string]struct {
		id   consume.Identity
		m    webhook.Message
		want int
	}{
		"events":             {consume.Events("x"), webhook.Message{Evidence: true, ID: "m-1", Events: []string{"e-1", "e-2"}}, 2},
		"a message":          {consume.Events("x"), webhook.Message{Evidence: true, ID: "m-1"}, 1},
		"no identifier":      {consume.Events("x"), evidence, 0},
		"a body":             {consume.WholeBody("x"), evidence, 1},
		"a hint":             {consume.Events("x"), hint, 0},
		"a hint by its body": {consume.WholeBody("x"), hint, 0},
	} {
		messages, err := row.id(row.m, []byte("body"))
		assert.Len(t, messages, row.want, name)
		assert.Equal(t, row.want == 0, err != nil, name)
	}
	one, err := consume.WholeBody("x")(evidence, []byte("one"))
	require.NoError(t, err)
	other, err := consume.WholeBody("x")(evidence, []byte("other"))
	require.NoError(t, err)
	assert.NotEqual(t, one, other)

	b := open(t)
	unverified := b.WebhookHandler(consume.Events("x"), func(context.Context, journal.Tx, consume.Message, []byte) error { return errors.New("called") })
	assert.Equal(t, http.StatusInternalServerError, ask(unverified, "body"))
}

// The first time that an event is delivered, the client may fail to take note of it. The consumer would do it without its
// operations, and only once. So it does it with the next delivery.
func TestDeliveryThatTheClientCanNotRecord(t *testing.T) {
	t.Parallel()
	h := openHook(t, bookID)
	event := `{"id":"evt_1","object":"event","type":"charge.succeeded","data":{"object":{"id":"ch_1","object":"charge"}}}`
	h.client.fails.Store(true)
	require.Equal(t, http.StatusServiceUnavailable, h.deliver(event))
	assert.Empty(t, h.ledger())
	h.client.fails.Store(false)
	before := h.client.looked.Load()
	require.Equal(t, http.StatusNoContent, h.deliver(event))
	assert.Greater(t, h.client.looked.Load(), before, "it is looked for the operation of the event")
	assert.Equal(t, []string{"evt_1"}, h.ledger())
}

// Adyen's second partial refund has the first one's pspReference, and another amount. Both take effect, once each, in whatever
// delivery they come.
func TestEventsThatDifferByMoreThanTheirReference(t *testing.T) {
	t.Parallel()
	b := open(t)
	v, err := webhook.Adyen(adyenSecret)
	require.NoError(t, err)
	h := &webhook.Handler{Verifier: v, Next: b.WebhookHandler(consume.Events("adyen"), bookID)}
	const refund = `{"NotificationRequestItem":{"pspReference":"9914","eventCode":"REFUND","success":"true","amount":{"value":%d}}}`
	first, second := fmt.Sprintf(refund, 300), fmt.Sprintf(refund, 700)
	for _, items := range []string{first, second, first, second, second + "," + first} {
		r := httptest.NewRequest("POST", "/hooks", nil)
		r.Body = signedBody(t, "adyen", adyenSecret, r.Header, `{"notificationItems":[`+items+`]}`)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		assert.Equal(t, http.StatusNoContent, w.Code)
	}
	assert.Equal(t, []string{"9914::::300::REFUND:true", "9914::::700::REFUND:true"}, b.ledger())
}

const adyenSecret = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"

func bookID(ctx context.Context, tx journal.Tx, m consume.Message, _ []byte) error {
	return book(m.ID)(ctx, tx)
}

// signedBody returns a body that is signed by a provider's scheme.
func signedBody(t *testing.T, provider, secret string, h http.Header, body string) io.ReadCloser {
	t.Helper()
	signed, err := providertest.Sign(provider, providertest.Signing{Secret: secret, At: time.Now()}, h, []byte(body))
	require.NoError(t, err)
	return io.NopCloser(bytes.NewReader(signed))
}

// A stranger repeats a genuine delivery, and changes what its scheme does not sign. It is still verified, and done once.
func TestReplayThatAStrangerChanged(t *testing.T) {
	t.Parallel()
	made := func(v *webhook.Verifier, err error) *webhook.Verifier {
		require.NoError(t, err)
		return v
	}
	replace := func(old, with string) func(string) string {
		return func(body string) string { return strings.ReplaceAll(body, old, with) }
	}
	swapped := func(form string) string {
		one, other, _ := strings.Cut(form, "&")
		return other + "&" + one
	}
	const braintreeKey = "0123456789abcdef0123"
	for name, row := range map[string]struct {
		v                *webhook.Verifier
		provider, secret string
		body             string
		changes          []func(string) string
	}{
		"adyen": {made(webhook.Adyen(adyenSecret)), "adyen", adyenSecret,
			`{"live":"false","notificationItems":[{"NotificationRequestItem":{"pspReference":"1","eventCode":"REFUND","success":"true","eventDate":"2026-11-20T10:00:00Z"}}]}`,
			[]func(string) string{replace("2026-11-20", "2026-11-27"), replace(`"live"`, ` "live"`), replace(`"live":"false"`, `"live":"true"`)}},
		"braintree": {made(webhook.Braintree(webhook.BraintreeKey{Public: "public", Private: braintreeKey})), "braintree", "public:" + braintreeKey, `<notification/>`,
			[]func(string) string{func(body string) string { return body + "&more=1" }, replace("%0A", ""), swapped}},
		"twilio": {made(webhook.Twilio("https://example.com", braintreeKey)), "", "", `MessageSid=SM1&MessageStatus=delivered`,
			[]func(string) string{swapped, replace("SM1", "%53M1"), func(body string) string { return body + "&MessageSid=SM1" }}},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t)
			for identity, want := range map[string]int{"events": 1, "the whole body": 0} {
				id := map[string]consume.Identity{"events": consume.Events(name), "the whole body": consume.WholeBody(name)}[identity]
				h := &webhook.Handler{Verifier: row.v, Next: b.another(strings.ReplaceAll(identity, " ", "-")).WebhookHandler(id, bookID)}
				before := len(b.ledger())
				for _, change := range append(row.changes, func(body string) string { return body }) {
					r := httptest.NewRequest("POST", "/hooks", nil)
					if row.provider == "" {
						mac := hmac.New(sha1.New, []byte(braintreeKey))
						mac.Write([]byte("https://example.com/hooksMessageSidSM1MessageStatusdelivered"))
						r.Header.Set("X-Twilio-Signature", base64.StdEncoding.EncodeToString(mac.Sum(nil)))
						r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
						r.Body = io.NopCloser(strings.NewReader(row.body))
					} else {
						r.Body = signedBody(t, row.provider, row.secret, r.Header, row.body)
					}
					genuine, err := io.ReadAll(r.Body)
					require.NoError(t, err)
					r.Body = io.NopCloser(strings.NewReader(change(string(genuine))))
					w := httptest.NewRecorder()
					h.ServeHTTP(w, r)
					assert.Equal(t, want == 0, w.Code == http.StatusInternalServerError, "%s: %d", identity, w.Code)
				}
				assert.Equal(t, want, len(b.ledger())-before, identity)
			}
		})
	}
}

// verified puts a webhook's consumer behind a scheme that signs the body alone.
func (b *books) verified(id consume.Identity, do func(context.Context, journal.Tx, consume.Message, []byte) error) http.Handler {
	v, err := webhook.Shopify("0123456789abcdef0123")
	require.NoError(b.t, err)
	h := &webhook.Handler{Verifier: v, Next: b.WebhookHandler(id, do)}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		require.NoError(b.t, err)
		signed, err := providertest.Sign("shopify", providertest.Signing{Secret: "0123456789abcdef0123", At: time.Now()}, r.Header, body)
		require.NoError(b.t, err)
		r.Body = io.NopCloser(strings.NewReader(string(signed)))
		h.ServeHTTP(w, r)
	})
}

func ask(h http.Handler, body string) int {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("POST", "/hooks", strings.NewReader(body)))
	return w.Code
}

// A function's error may hold a credential, and is logged without it.
func TestErrorIsLoggedWithoutCredentials(t *testing.T) {
	t.Parallel()
	b := open(t)
	var log bytes.Buffer
	c, err := consume.New(t.Context(), consume.Options{Journal: b.journal, Name: "mails", Keep: time.Hour, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	b.Consumer = c
	h := b.verified(consume.WholeBody("shopify"), func(context.Context, journal.Tx, consume.Message, []byte) error {
		return errors.New("Post https://mail.example/send?key=sk_live_0123456789abcdef: no route")
	})
	assert.Equal(t, http.StatusInternalServerError, ask(h, "body"))
	assert.Contains(t, log.String(), "mail.example/send")
	assert.NotContains(t, log.String(), "sk_live")
}

// Run ends with its journal, and no operator reads that as a fault.
func TestRunEndsWithTheJournal(t *testing.T) {
	t.Parallel()
	b := open(t)
	var log bytes.Buffer
	c, err := consume.New(t.Context(), consume.Options{Journal: b.journal, Name: "mails", Keep: time.Hour, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	require.NoError(t, b.journal.Close())
	require.ErrorIs(t, c.Run(t.Context()), journal.ErrClosed)
	assert.Empty(t, log.String())
}

// A message is forgotten once its time is over, and not before, whether Run removes its mark or not.
func TestMessageExpires(t *testing.T) {
	t.Parallel()
	for name, runs := range map[string]bool{"removed": true, "not removed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				b := openIn(t, folder)
				c, err := consume.New(t.Context(), consume.Options{Journal: b.journal, Name: "mails", Keep: 24 * time.Hour, Logger: slog.New(slog.DiscardHandler)})
				require.NoError(t, err)
				if runs {
					go func() { _ = c.Run(t.Context()) }()
				}
				n := 0
				deliver := func(id string) consume.Result {
					result, err := c.Do(t.Context(), message(id), book(id))
					require.NoError(t, err)
					return result
				}
				later := func(hours int) { // with some traffic, by which the journal sees the time
					for range hours {
						<-time.After(time.Hour)
						n++
						deliver(fmt.Sprint("traffic-", n))
						<-time.After(time.Minute)
						synctest.Wait()
					}
				}
				marked := func() (is bool) {
					for r, err := range b.journal.ListReceipts(t.Context(), journal.ReceiptFilter{}) {
						require.NoError(t, err)
						is = is || strings.HasSuffix(r.Key, "m-1")
					}
					return is
				}
				require.Equal(t, consume.Done, deliver("m-1"))
				later(23)
				assert.Equal(t, consume.Duplicate, deliver("m-1"))
				assert.True(t, marked())
				later(2)
				assert.Equal(t, !runs, marked())
				assert.Equal(t, consume.Done, deliver("m-1"))
			})
		})
	}
}

// A provider gives up waiting while a function runs. The message is done all the same, and its next delivery is a duplicate.
func TestProviderThatGivesUpWaiting(t *testing.T) {
	t.Parallel()
	b := open(t)
	gone, goAway := context.WithCancel(t.Context())
	h := b.verified(consume.WholeBody("shopify"), func(ctx context.Context, tx journal.Tx, _ consume.Message, _ []byte) error {
		goAway()
		return book("once")(ctx, tx)
	})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(gone, "POST", "/hooks", strings.NewReader("body")))
	assert.Equal(t, http.StatusNoContent, w.Code)
	assert.Equal(t, http.StatusNoContent, ask(h, "body"))
	assert.Equal(t, []string{"once"}, b.ledger())
}

// While another delivery for a message is worked on, the provider is asked to deliver it later.
func TestWebhookThatIsBusy(t *testing.T) {
	t.Parallel()
	b := open(t)
	h := b.verified(consume.WholeBody("shopify"), func(context.Context, journal.Tx, consume.Message, []byte) error {
		return fmt.Errorf("a second consumer: %w", consume.ErrBusy)
	})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("POST", "/hooks", strings.NewReader("body")))
	assert.Equal(t, http.StatusServiceUnavailable, w.Code)
	assert.Equal(t, "1", w.Header().Get("Retry-After"))
}

// Mollie sends the same unsigned form for each change to a payment. None is marked as done, so neither the first of them nor a
// stranger's makes a duplicate of the next one.
func TestHintsAreNotMarked(t *testing.T) {
	t.Parallel()
	b := open(t)
	for _, id := range []consume.Identity{consume.Events("mollie"), consume.WholeBody("mollie")} {
		h := &webhook.Handler{Verifier: webhook.MollieClassic(), Next: b.WebhookHandler(id, func(ctx context.Context, tx journal.Tx, m consume.Message, _ []byte) error {
			return book(m.ID)(ctx, tx)
		})}
		for range 2 {
			r := httptest.NewRequest("POST", "/hooks", strings.NewReader("id=tr_7UhSN1zuXS"))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			assert.Equal(t, http.StatusInternalServerError, w.Code)
		}
	}
	assert.Empty(t, b.ledger())
	for range b.journal.ListReceipts(t.Context(), journal.ReceiptFilter{}) {
		t.Error("a hint was marked")
	}
}
