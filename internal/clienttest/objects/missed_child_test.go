//go:build unix

package objects_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/consume"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/webhook"
)

func TestMain(m *testing.M) { oncetest.Main(m, (*life).carryOut) }

// life is one service process. It receives webhooks, reads the list by Run, and makes charges at the same time.
type life struct {
	Journal  string        // the file
	Provider string        // host and port
	Roots    []byte        // the provider's certificate
	Offset   time.Duration // of the provider's clock
	Began    time.Time     // when the first consumer ran
	Charges  int           // it asks for all until now
	Doom     oncetest.Doom
	Last     bool // it ends by itself
}

// The points in an event's life.
const (
	inHandler      oncetest.Point = "in the consumer's function"
	afterConsumed  oncetest.Point = "after the consumer's commit"
	beforeBookmark oncetest.Point = "before the bookmark"
	afterBookmark  oncetest.Point = "after the bookmark"
)

// doomed is a journal whose steps reach a fate's points. read gets each bookmark. Its clock is offset from the
// machine's, and the client and the consumer go by it.
type doomed struct {
	*sqlite.Journal
	fate   *oncetest.Fate
	read   chan struct{}
	offset time.Duration
}

func (j *doomed) Now() time.Time { return time.Now().Add(j.offset) }

func (j *doomed) Apply(ctx context.Context, ev machine.Event) (machine.Result, error) {
	j.fate.Reach(oncetest.BeforeEvent(ev.Kind))
	res, err := j.Journal.Apply(ctx, ev)
	j.fate.Reach(oncetest.AfterEvent(ev.Kind))
	return res, err
}

func (j *doomed) RecordEvent(ctx context.Context, heard machine.Heard, evs []machine.Event) ([]machine.Result, bool, error) {
	j.fate.Reach(oncetest.BeforeEvent(machine.EventEvidence))
	res, first, err := j.Journal.RecordEvent(ctx, heard, evs)
	j.fate.Reach(oncetest.AfterEvent(machine.EventEvidence))
	return res, first, err
}

func (j *doomed) SetBookmark(ctx context.Context, b journal.Bookmark) (journal.Bookmark, error) {
	j.fate.Reach(beforeBookmark)
	b, err := j.Journal.SetBookmark(ctx, b)
	j.fate.Reach(afterBookmark)
	if err == nil {
		j.read <- struct{}{}
	}
	return b, err
}

// table is Stripe's, at another host.
func table(host string) providers.Provider {
	p := providers.Stripe()
	p.Hosts = []string{host}
	return p
}

func (l *life) carryOut() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	file, err := sqlite.Open(l.Journal, sqlite.Options{Volatile: true})
	if err != nil {
		return err
	}
	j := &doomed{file, oncetest.NewFate(l.Doom), make(chan struct{}, 1), l.Offset}
	booked, err := l.consumer(ctx, j)
	if err != nil {
		return err
	}
	client, err := l.client(j, booked)
	if err != nil {
		return err
	}
	v, err := webhook.Stripe(secret)
	if err != nil {
		return err
	}
	receiver := httptest.NewServer(client.WebhookHandler("stripe", v, booked))
	defer receiver.Close()
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(receiver.URL); err != nil {
		return err
	}
	if _, err := io.ReadFull(os.Stdin, make([]byte, 1)); err != nil {
		return err
	}
	go oncetest.OutliveNobody()

	ran := make(chan error, 1)
	go func() { ran <- client.Run(ctx) }()
	for i := range l.Charges {
		if err := l.charges(ctx, client.HTTPClient(), i); err != nil {
			return err
		}
	}
	<-j.read
	if err := out.Encode("done"); err != nil {
		return err
	}
	if !l.Last {
		return <-ran
	}
	cancel()
	if err := <-ran; !errors.Is(err, context.Canceled) {
		return err
	}
	return errors.Join(client.Shutdown(context.Background()), file.Close())
}

// consumer books each event as a row. The table would take an event twice.
func (l *life) consumer(ctx context.Context, j *doomed) (http.Handler, error) {
	once, err := consume.New(ctx, consume.Options{
		Journal: j, Name: "stripe", Keep: 35 * 24 * time.Hour,
		Observe: func(context.Context, consume.Outcome) { j.fate.Reach(afterConsumed) },
	})
	if err != nil {
		return nil, err
	}
	tx, err := j.BeginTx(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := tx.Driver().(*sql.Tx).ExecContext(ctx, "CREATE TABLE IF NOT EXISTS booked (event TEXT, listed INT)"); err != nil {
		return nil, err
	}
	if err := tx.Commit(ctx); err != nil {
		return nil, err
	}
	return once.WebhookHandler(consume.Events("stripe"), func(ctx context.Context, tx journal.Tx, m consume.Message, _ []byte) error {
		from, _ := webhook.MessageOf(ctx)
		_, err := tx.Driver().(*sql.Tx).ExecContext(ctx, "INSERT INTO booked VALUES (?, ?)", m.ID, from.Listed)
		j.fate.Reach(inHandler)
		return err
	}), nil
}

func (l *life) client(j *doomed, booked http.Handler) (*onceward.Client, error) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(l.Roots)
	return onceward.New(onceward.Config{
		Journal:    j,
		Providers:  []providers.Provider{table(l.Provider)},
		HTTPClient: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}},
		Backoff:    backoff.Policy{Initial: time.Millisecond, Max: 10 * time.Millisecond},
		Authorize:  authorize,
		Reconcile: &onceward.Reconcile{
			Budget: backoff.Budget{Capacity: 1 << 20}, // its time is the machine's
			Feeds: []onceward.Feed{{
				Provider: "stripe", From: l.Began, Types: []string{"charge.succeeded"}, Every: time.Minute, Handler: booked,
			}},
		},
	})
}

func authorize(r *http.Request) error {
	r.Header.Set("Authorization", "Bearer sk_test_storm")
	return nil
}

// charges asks for a charge until it has the answer.
func (l *life) charges(ctx context.Context, hc *http.Client, i int) error {
	ctx, cancel := context.WithTimeout(ctx, oncetest.PatienceOfAStorm)
	defer cancel()
	for {
		status, err := charges(onceward.WithOperation(ctx, fmt.Sprint("invoice-", i)), hc, "https://"+l.Provider, amountOf(i))
		if err == nil && status == http.StatusOK {
			return nil
		}
		if ctx.Err() != nil || errors.Is(err, onceward.ErrOutcomeUnknown) {
			return fmt.Errorf("invoice-%d: status %d: %w", i, status, err)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func amountOf(i int) int { return 1000 + i }

func charges(ctx context.Context, hc *http.Client, at string, amount int) (status int, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at+"/v1/charges", strings.NewReader(fmt.Sprintf("amount=%d&currency=eur", amount)))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if err := authorize(r); err != nil {
		return 0, err
	}
	resp, err := hc.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}
