package consume_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/consume"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
	"github.com/onceward/onceward/webhook"
)

// openLedger opens a journal with the program's own tables in its file.
func openLedger(tables string) (j *sqlite.Journal, end func()) {
	folder, err := os.MkdirTemp("", "consume")
	if err != nil {
		log.Fatal(err)
	}
	if j, err = sqlite.Open(filepath.Join(folder, "ledger.db"), sqlite.Options{}); err != nil {
		log.Fatal(err)
	}
	inTx(j, func(tx *sql.Tx) error {
		_, err := tx.Exec(tables)
		return err
	})
	return j, func() { _ = errors.Join(j.Close(), os.RemoveAll(folder)) }
}

func inTx(j *sqlite.Journal, do func(*sql.Tx) error) {
	tx, err := j.BeginSQL(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if err := errors.Join(do(tx), tx.Commit()); err != nil {
		log.Fatal(err)
	}
}

func lines(j *sqlite.Journal, table string) (n int) {
	inTx(j, func(tx *sql.Tx) error { return tx.QueryRow("SELECT count(*) FROM " + table).Scan(&n) })
	return n
}

// A worker takes messages from a table that serves as a queue. It dies after its work and before it removes the message, so
// that the next worker gets the message again.
func ExampleConsumer_Do() {
	j, end := openLedger(`CREATE TABLE queue (id TEXT, item TEXT); CREATE TABLE ledger (item TEXT);
		INSERT INTO queue VALUES ('m-1', 'apples'), ('m-2', 'pears')`)
	defer end()
	ctx := context.Background()
	c, err := consume.New(ctx, consume.Options{Journal: j, Name: "ledger", Keep: 15 * 24 * time.Hour})
	if err != nil {
		log.Fatal(err)
	}

	work := func(dies bool) {
		for {
			var id, item string
			inTx(j, func(tx *sql.Tx) error {
				if err := tx.QueryRow("SELECT id, item FROM queue LIMIT 1").Scan(&id, &item); !errors.Is(err, sql.ErrNoRows) {
					return err
				}
				return nil
			})
			if id == "" {
				return
			}
			result, err := c.Do(ctx, consume.Message{ID: id, Source: "queue"}, func(ctx context.Context, tx journal.Tx) error {
				_, err := tx.Driver().(*sql.Tx).ExecContext(ctx, "INSERT INTO ledger VALUES (?)", item)
				return err
			})
			if err != nil {
				continue // it stays in the queue
			}
			fmt.Println(id, result)
			if dies {
				return
			}
			inTx(j, func(tx *sql.Tx) error { // acknowledges it
				_, err := tx.Exec("DELETE FROM queue WHERE id = ?", id)
				return err
			})
		}
	}
	work(true)
	work(false)
	fmt.Println("lines in the ledger:", lines(j, "ledger"))

	// Output:
	// m-1 done
	// m-1 duplicate
	// m-2 done
	// lines in the ledger: 2
}

// Stripe delivers an event three times. The client that made the charge hears each of them, and the consumer handles
// it once. Here the charge is pending at first, and then succeeds.
func ExampleConsumer_WebhookHandler() {
	j, end := openLedger("CREATE TABLE ledger (event TEXT)")
	defer end()
	stripe := providertest.NewServer(providers.Stripe(), providertest.Objects("ch_"))
	defer stripe.Close()
	client, err := onceward.New(onceward.Config{Journal: j, Providers: []providers.Provider{stripe.Provider()}, Reconcile: &onceward.Reconcile{}})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Shutdown(context.Background()) }()
	c, err := consume.New(context.Background(), consume.Options{Journal: j, Name: "bookings", Keep: 4 * 24 * time.Hour})
	if err != nil {
		log.Fatal(err)
	}
	signed, err := webhook.Stripe("whsec_of_the_shop")
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /webhooks/stripe", client.WebhookHandler("stripe", signed, c.WebhookHandler(consume.Events("stripe"),
		func(ctx context.Context, tx journal.Tx, m consume.Message, _ []byte) error {
			_, err := tx.Driver().(*sql.Tx).ExecContext(ctx, "INSERT INTO ledger VALUES (?)", m.ID)
			return err
		})))
	web := httptest.NewServer(mux)
	defer web.Close()

	stripe.Events(web.URL+"/webhooks/stripe", "whsec_of_the_shop")
	stripe.EveryEvent(providertest.EventManner{Duplicates: 2})
	post(client.HTTPClient(), "order-1", stripe.URL+"/v1/charges", "application/x-www-form-urlencoded", "amount=4200&currency=eur")
	stripe.Advance(time.Minute)
	for _, d := range stripe.Deliveries() {
		fmt.Println(d.Type, d.Status)
	}
	fmt.Println("events in the ledger:", lines(j, "ledger"))

	// Unordered output:
	// charge.succeeded 204
	// charge.succeeded 204
	// charge.succeeded 204
	// charge.pending 204
	// charge.pending 204
	// charge.pending 204
	// events in the ledger: 2
}

// Adyen signs eight fields in each item. They identify the event, since anyone could change the rest of the body.
// A program that pays without a client of Onceward verifies by webhook.Handler.
func ExampleEvents_adyen() {
	j, end := openLedger("CREATE TABLE ledger (event TEXT)")
	defer end()
	c, err := consume.New(context.Background(), consume.Options{Journal: j, Name: "bookings", Keep: 31 * 24 * time.Hour})
	if err != nil {
		log.Fatal(err)
	}
	const key = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"
	signed, err := webhook.Adyen(key)
	if err != nil {
		log.Fatal(err)
	}
	web := httptest.NewServer(&webhook.Handler{Verifier: signed, Next: c.WebhookHandler(consume.Events("adyen"),
		func(ctx context.Context, tx journal.Tx, m consume.Message, body []byte) error {
			_, err := tx.Driver().(*sql.Tx).ExecContext(ctx, "INSERT INTO ledger VALUES (?)", body)
			return err
		})})
	defer web.Close()

	adyen := providertest.NewServer(providers.Adyen(""), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"pspReference":"psp-1","resultCode":"Authorised"}`)
	}))
	defer adyen.Close()
	adyen.Events(web.URL, key)
	adyen.EveryEvent(providertest.EventManner{Duplicates: 2})
	post(adyen.Client(), "order-1", adyen.URL+"/v71/payments", "application/json", `{"merchantAccount":"Shop","reference":"order-1","amount":{"value":4200,"currency":"EUR"}}`)
	adyen.Tell("psp-1", "AUTHORISATION")
	adyen.Advance(time.Minute)
	for _, d := range adyen.Deliveries() {
		fmt.Println(d.Status)
	}
	fmt.Println("bookings:", lines(j, "ledger"))

	// Output:
	// 204
	// 204
	// 204
	// bookings: 1
}

// PayPal's IPN comes for each state of a payment, with the same txn_id. A message counts once PayPal has verified it, and then
// once for each state. A stranger's message, which PayPal does not verify, counts for nothing.
func ExampleConsumer_WebhookHandler_payPalIPN() {
	j, end := openLedger("CREATE TABLE ledger (payment TEXT, state TEXT)")
	defer end()
	const sent = "payment_status=Pending&txn_id=61E67681CH3238416&mc_gross=42.00"
	completed := strings.Replace(sent, "Pending", "Completed", 1)
	payPal := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // https://ipnpb.paypal.com/cgi-bin/webscr
		question, _ := io.ReadAll(r.Body)
		answer := "INVALID"
		if message, asks := strings.CutPrefix(string(question), "cmd=_notify-validate&"); asks && (message == sent || message == completed) {
			answer = "VERIFIED"
		}
		fmt.Fprint(w, answer)
	}))
	defer payPal.Close()
	c, err := consume.New(context.Background(), consume.Options{Journal: j, Name: "ipn", Keep: 60 * 24 * time.Hour})
	if err != nil {
		log.Fatal(err)
	}

	asking := &http.Client{Timeout: 10 * time.Second}
	verify := func(body []byte) error {
		answer, err := asking.Post(payPal.URL, "application/x-www-form-urlencoded", strings.NewReader("cmd=_notify-validate&"+string(body)))
		if err != nil {
			return err // PayPal sends the message again
		}
		defer answer.Body.Close()
		if text, err := io.ReadAll(answer.Body); err != nil || string(text) != "VERIFIED" {
			return errors.Join(errors.New("PayPal does not verify the message"), err)
		}
		return nil
	}
	identify := func(_ webhook.Message, body []byte) ([]consume.Message, error) {
		form, err := url.ParseQuery(string(body))
		if err != nil || form.Get("txn_id") == "" || form.Get("payment_status") == "" {
			return nil, errors.New("the message is about no payment")
		}
		if err := verify(body); err != nil {
			return nil, err
		}
		return []consume.Message{{ID: form.Get("txn_id") + " " + form.Get("payment_status"), Source: "paypal ipn"}}, nil
	}
	web := httptest.NewServer(&webhook.Handler{Verifier: webhook.PayPalIPN(), Next: c.WebhookHandler(identify,
		func(ctx context.Context, tx journal.Tx, m consume.Message, body []byte) error {
			payment, state, _ := strings.Cut(m.ID, " ")
			_, err := tx.Driver().(*sql.Tx).ExecContext(ctx, "INSERT INTO ledger VALUES (?, ?)", payment, state)
			return err
		})})
	defer web.Close()
	for _, body := range []string{sent, sent, completed, completed, strings.Replace(completed, "42.00", "4200.00", 1)} {
		answer, err := http.Post(web.URL, "application/x-www-form-urlencoded", strings.NewReader(body))
		if err != nil {
			log.Fatal(err)
		}
		_ = answer.Body.Close()
		fmt.Println(answer.StatusCode)
	}
	fmt.Println("rows:", lines(j, "ledger"))

	// Output:
	// 204
	// 204
	// 204
	// 204
	// 500
	// rows: 2
}

func post(hc *http.Client, name, to, kind, body string) {
	req, err := http.NewRequestWithContext(onceward.WithOperation(context.Background(), name), http.MethodPost, to, strings.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	resp, err := hc.Do(req)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		log.Fatal(err)
	}
	_ = resp.Body.Close()
}
