//go:build unix

package objects_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/compare"
	"github.com/onceward/onceward/providers/providertest"
)

const (
	secret     = "whsec_of_the_storm_test"
	pageSize   = 4
	latestList = 15 * time.Minute // after an event. A pass ends ten minutes before now, and overlaps the next by ten
)

// charge is a charge at the provider, and its only event.
type charge struct {
	id, event string
	key       string
	amount    int64
	at        time.Time
	listed    time.Time // when the list first has the event
	took      bool      // the receiver answered 2xx
	body      []byte    // of the event
	answer    []byte
}

// provider has Stripe's charges and events. Its clock is hours behind, and is moved between the service's lives.
// A webhook that the receiver does not take is lost.
type provider struct {
	*httptest.Server
	t       *testing.T
	mu      sync.Mutex
	random  *rand.Rand
	offset  time.Duration // of its clock
	charges []*charge     // the oldest first
	hook    string        // the receiver's address; empty while it is down
	held    *charge       // its webhook is sent after a later one
	sending sync.WaitGroup

	down, late, repeats, twice, swapped int
}

func newProvider(t *testing.T, seed uint64) *provider {
	p := &provider{t: t, random: rand.New(rand.NewPCG(seed, 1)), offset: -12 * time.Hour}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/charges", p.pays)
	mux.HandleFunc("GET /v1/events", p.lists)
	p.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", p.now().UTC().Format(http.TimeFormat))
		w.Header().Set("Content-Type", "application/json")
		mux.ServeHTTP(w, r)
	}))
	p.Config.ErrorLog = log.New(io.Discard, "", 0) // killed processes break their handshakes
	p.StartTLS()
	t.Cleanup(p.Close)
	return p
}

func (p *provider) now() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Add(p.offset)
}

// made returns the number of charges.
func (p *provider) made() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.charges)
}

// advance lets time go by.
func (p *provider) advance(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.offset += d
}

// receiver sets where webhooks go from now on. Empty means that the receiver is down, and a held webhook is lost.
func (p *provider) receiver(address string) {
	p.sending.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hook, p.held = address, nil
}

func (p *provider) pays(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	assert.NotEmpty(p.t, key)
	assert.NoError(p.t, r.ParseForm())
	p.mu.Lock()
	at := slices.IndexFunc(p.charges, func(c *charge) bool { return c.key == key })
	if at < 0 {
		at = len(p.charges)
		p.happens(key, r.PostForm)
	} else {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	answer := p.charges[at].answer
	p.mu.Unlock()
	_, err := w.Write(answer)
	assert.NoError(p.t, err)
}

// happens makes a charge and its event. p.mu is held.
func (p *provider) happens(key string, form url.Values) {
	n := strconv.Itoa(len(p.charges) + 1)
	c := &charge{id: "ch_" + n, event: "evt_" + n, key: key, at: time.Now().Add(p.offset).Truncate(time.Second)}
	var err error
	c.amount, err = strconv.ParseInt(form.Get("amount"), 10, 64)
	assert.NoError(p.t, err)
	made := map[string]any{
		"id": c.id, "object": "charge", "amount": c.amount, "currency": form.Get("currency"), "created": c.at.Unix(), "livemode": false, "status": "succeeded",
		"metadata": map[string]any{"onceward": form.Get("metadata[onceward]")},
	}
	c.answer, err = json.Marshal(made)
	assert.NoError(p.t, err)
	c.body, err = json.Marshal(map[string]any{
		"id": c.event, "object": "event", "type": "charge.succeeded", "created": c.at.Unix(), "livemode": false,
		"data": map[string]any{"object": made}, "request": map[string]any{"idempotency_key": key},
	})
	assert.NoError(p.t, err)
	if c.listed = c.at; p.random.IntN(3) == 0 {
		p.late++
		c.listed = c.at.Add(time.Duration(1+p.random.IntN(int(latestList/time.Second))) * time.Second)
	}
	p.charges = append(p.charges, c)
	send := []*charge{c}
	switch {
	case p.hook == "":
		p.down++
		return
	case p.held != nil:
		send, p.held = append(send, p.held), nil
	case p.random.IntN(4) == 0:
		p.held = c
		p.swapped++
		return
	case p.random.IntN(3) == 0:
		p.twice++
		send = append(send, c)
	}
	to := p.hook
	p.sending.Go(func() {
		for _, c := range send {
			p.send(to, c)
		}
	})
}

// send sends a webhook once.
func (p *provider) send(to string, c *charge) {
	header := http.Header{"Content-Type": {"application/json"}}
	body, err := providertest.Sign("stripe", providertest.Signing{Secret: secret, At: time.Now()}, header, c.body)
	if !assert.NoError(p.t, err) {
		return
	}
	r, err := http.NewRequest(http.MethodPost, to, bytes.NewReader(body))
	if !assert.NoError(p.t, err) {
		return
	}
	r.Header = header
	r.Close = true
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return // the process was killed
	}
	assert.NoError(p.t, resp.Body.Close())
	p.mu.Lock()
	defer p.mu.Unlock()
	c.took = c.took || resp.StatusCode/100 == 2
}

// lists answers with a page of the events. Each page after the first repeats the last event of the one before, and
// neighbours have changed places.
func (p *provider) lists(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	assert.Contains(p.t, q["types[]"], "charge.succeeded")
	bound := func(name string) time.Time {
		seconds, err := strconv.ParseInt(q.Get(name), 10, 64)
		assert.NoError(p.t, err, r.URL)
		return time.Unix(seconds, 0)
	}
	since, until := bound("created[gte]"), bound("created[lte]")
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now().Add(p.offset)
	var found []*charge
	for _, c := range slices.Backward(p.charges) {
		if !c.at.Before(since) && !c.at.After(until) && !c.listed.After(now) {
			found = append(found, c)
		}
	}
	for i := 1; i < len(found); i += 3 {
		found[i-1], found[i] = found[i], found[i-1]
	}
	size := pageSize
	if after := q.Get("starting_after"); after != "" {
		found = found[slices.IndexFunc(found, func(c *charge) bool { return c.event == after }):]
		size++ // the repeated one comes first
		p.repeats++
	}
	texts := make([]string, 0, size)
	for _, c := range found[:min(size, len(found))] {
		texts = append(texts, string(c.body))
	}
	more := strconv.FormatBool(len(found) > size)
	_, err := w.Write([]byte(`{"object":"list","data":[` + strings.Join(texts, ",") + `],"has_more":` + more + `}`))
	assert.NoError(p.t, err)
}

// lost returns how many events no webhook has brought.
func (p *provider) lost() (n int) {
	for _, c := range p.charges {
		if !c.took {
			n++
		}
	}
	return n
}

// objects are the charges as the provider lists them, the oldest first.
func (p *provider) objects() (all []compare.Object) {
	for _, c := range p.charges {
		all = append(all, compare.Object{ID: c.id, Kind: "charge", Key: c.key, At: c.at, Money: compare.Money{Minor: c.amount, Currency: "EUR"}})
	}
	slices.SortStableFunc(all, func(a, b compare.Object) int { return cmp.Compare(a.At.Unix(), b.At.Unix()) })
	return all
}
