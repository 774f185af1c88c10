package sim

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/webhook"
)

// shows says how a provider shows objects, as the table states.
type shows struct {
	finds    bool // by a look-up, by reference
	prompt   bool // … which lists every object, at once
	tells    bool // by webhooks
	identity bool // it shows the account of a credential
	heedless bool // it ignores a look-up's filter, and lists every object
}

// handlingTime is the longest time that a request dawdles, if the table states no other limit.
const handlingTime = 10 * time.Minute

func (l *life) drawShows(host string) shows {
	if !l.has(looks) {
		return shows{}
	}
	random := l.dice("shows", host)
	s := shows{finds: !random.of(4), prompt: random.of(2), identity: random.of(2), heedless: random.of(3)}
	s.tells = l.has(webhooks) && !random.of(4)
	s.prompt = s.prompt && s.finds
	return s
}

// tellsIn adds to the table how the provider shows its objects.
func (s shows) tellsIn(p *providers.Provider) {
	if s == (shows{}) {
		return
	}
	const source = "made up"
	p.Endpoints = append([]providers.Endpoint{p.Endpoints[0]}, p.Endpoints...)
	e := &p.Endpoints[0]
	e.Pattern, e.Object = "POST /orders", "order"
	e.Reference = providers.Reference{Place: providers.KeyFormField, Name: "reference", Fill: true, Source: source}
	if s.identity {
		p.Identity = providers.Identity{Path: "/account", Field: "id", Source: source}
	}
	if s.finds {
		e.Lookups = []providers.Lookup{{
			By: providers.ByReference, Path: "/orders", Query: "reference={reference}", Items: "data[]", ID: "id", Created: "created",
			Same:  []providers.Same{{Field: "reference", Is: "{reference}"}, {Field: "errand", Is: "{request.errand}"}},
			Next:  providers.Paging{Style: providers.PageCursor, Param: "cursor", Cursor: "next", Size: 1000},
			Means: []providers.Meaning{{Field: "state", Equals: "made", Is: providers.TookEffect}}, SameShape: true, Source: source,
		}}
	}
	if e.HandlingTime == 0 && s.finds {
		e.HandlingTime = handlingTime
	}
	if s.tells {
		made := providers.EventRule{Field: "type", Equals: "order.made", Reference: "object.reference", ID: "id", Object: "object.id", Created: "object.created", At: "at", Is: providers.TookEffect, Source: source}
		hint := providers.EventRule{Field: "type", Equals: "order.changed", Reference: "object.reference", ID: "id", Thin: true, Source: source}
		p.Events = []providers.EventRule{made, hint}
	}
}

// reconciles returns a process's Config.Reconcile, or nil.
func (l *life) reconciles(p *process, right bool) *onceward.Reconcile {
	if !l.has(looks) || l.has(lookless) && !right && l.dice("lookless", p.name).of(2) {
		return nil
	}
	r := &onceward.Reconcile{OnUnknown: func(_ context.Context, op onceward.Operation, looked onceward.Looked) error {
		l.tell("caller", p.name, "OnUnknown: %s: %s, %s, %v", op.ID, looked.Why, looked.Missing, looked.Objects)
		l.visit("told that nothing is looked for any more")
		return nil
	}}
	if l.has(lookHooks) {
		r.Lookup = func(_ context.Context, op onceward.Operation) (onceward.Finding, error) { return l.lookHook(op), nil }
	}
	return r
}

// lookHook is the business's own look-up, which reads the ledger.
func (l *life) lookHook(op onceward.Operation) onceward.Finding {
	name := l.ledgerName(op.Ref)
	if name == "" || l.has(modes) {
		return onceward.Finding{}
	}
	l.world.mu.Lock()
	made := l.world.effects[name]
	more := len(l.world.underway[name])
	l.world.mu.Unlock()
	switch {
	case len(made) == 1:
		l.visit("found by a hook")
		return onceward.Finding{Found: journal.FindingTookEffect, Object: "order " + made[0].id, Answer: &onceward.Answer{
			Status: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(made[0].body)}}
	case len(made) == 0 && more == 0:
		l.visit("found absent by a hook")
		return onceward.Finding{Found: journal.FindingAbsent, Why: "the ledger"}
	}
	return onceward.Finding{}
}

// object is a provider's object, as the provider shows it.
type object struct {
	host, mode, reference, body string
	at                          time.Time
}

// looksUp answers a request that changes nothing.
func (l *line) looksUp(req *http.Request) (*http.Response, error) {
	defer l.still.pass("the answer to a look", "")
	host, mode := req.URL.Host, modeOf(req.Header)
	reference := req.URL.Query().Get("reference")
	l.mu.Lock()
	l.looked[host]++
	random := l.dice("look", host, l.looked[host])
	c := l.contracts[host]
	f := goesWell
	moment, met := l.befalls(host)
	trouble := random.Float64() < l.trouble
	switch {
	case l.well:
	case met:
		f = moment
	case l.outage(host):
		f = []fate{refusedTCP, lostBefore, says503}[random.IntN(3)]
	case l.refused(host):
		f = says401
	case trouble:
		f = []fate{refusedTCP, lostBefore, hangs, says503, says429, says401, pretends, cutAnswer, fails}[random.IntN(9)]
	}
	l.visited["look "+f.String()]++
	asked := l.patience[l.process+" "+host]
	l.mu.Unlock()
	l.tell("provider", l.process, "%s is asked for %s: %v", host, req.URL.RequestURI(), f)
	// Of two looks at one moment, neither knows the other's answer.
	if left := time.Until(asked.until); left > time.Millisecond && time.Now().After(asked.at) && !l.still.stood(asked.at) {
		l.fault("%s: looked at again %v before the time that it named", host, left)
	}
	a := answer{status: 200}
	switch f {
	case refusedTCP, lostBefore, blackHole:
		return nil, errNetwork
	case hangs:
		return l.waits(req, "", nil, f)
	case says503, says401, fails:
		a = answer{status: map[fate]int{says503: 503, says401: 401, fails: 500}[f], body: `{"error":"not now"}`}
	case says429:
		a = answer{status: 429, body: `{"error":"not now"}`, header: [2]string{"Retry-After", "90"}}
		a.heard = func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.patience[l.process+" "+host] = wish{at: time.Now(), until: time.Now().Add(90 * time.Second)}
		}
	case pretends:
		a = answer{status: 200, body: "<html>hello</html>", page: true}
	default:
		if req.URL.Path == "/account" {
			a.body = fmt.Sprintf(`{"id":"account-%s"}`, mode)
			break
		}
		a.body = l.list(c, mode, reference, random)
	}
	done := make(chan answer, 1)
	done <- a
	return l.waits(req, "", done, f)
}

// list returns a provider's listing for a reference. If its table promises nothing, an object may be missing for 15
// minutes.
func (w *world) list(c contract, mode, reference string, random dice) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var items []string
	for _, o := range w.objects[c.host] {
		late := !c.prompt && !w.well && time.Since(o.at) < 15*time.Minute && random.of(2)
		if o.mode == mode && (c.heedless || o.reference == reference) && !late {
			items = append(items, o.body)
		}
	}
	return `{"data":[` + strings.Join(items, ",") + `]}`
}

// shown returns the bodies of the objects that a provider shows for a reference now.
func (w *world) shown(host, reference string) (bodies []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.objects[host] {
		if o.reference == reference {
			bodies = append(bodies, o.body)
		}
	}
	return bodies
}

// delivers has a provider send events about an object: never, soon, late, twice, and in any order. The provider repeats
// an event up to six times until a process takes the event.
func (l *life) delivers(c contract, o object, id string) {
	random := l.dice("event", id)
	if !c.tells || random.of(4) {
		return
	}
	kind := "order.made"
	if random.of(5) {
		kind = "order.changed"
	}
	delay := time.Duration(0) // before the answer, maybe
	if random.of(2) {
		delay = random.within(time.Hour)
	}
	body := fmt.Sprintf(`{"id":"event-%s","type":%q,"at":%d,"object":%s}`, id, kind, time.Now().Unix(), o.body)
	for copied := range 1 + random.IntN(3) {
		again := l.dice("event", id, copied)
		go func() {
			time.Sleep(delay + time.Duration(copied)*again.within(10*time.Minute))
			for range 6 {
				if p := l.anyProcess(again); p != nil && l.delivered(p, c.name, body, again.of(6), again.of(2)) {
					return
				}
				time.Sleep(again.within(20 * time.Minute))
			}
		}()
	}
}

// signingSecret signs the providers' webhooks.
const signingSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// delivered delivers an event, and reports whether the process took it.
func (l *life) delivered(p *process, provider, body string, unsigned, queued bool) bool {
	if p.reconcile == nil || !p.knows[provider+".example"] {
		return false
	}
	l.visit("an event")
	if queued || unsigned {
		ops, err := p.client.RecordEvent(context.Background(), provider, onceward.Event{Body: []byte(body), Evidence: !unsigned})
		l.tell("provider", p.name, "an event of %s (signed: %v): %d operations, %v: %s", provider, !unsigned, len(ops), err, body)
		return err == nil
	}
	v, err := webhook.StandardWebhooks(signingSecret)
	if err != nil {
		panic(err)
	}
	secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(signingSecret, "whsec_"))
	if err != nil {
		panic(err)
	}
	at := fmt.Sprint(time.Now().Unix())
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "delivery.%s.%s", at, body)
	req := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader([]byte(body)))
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Webhook-Id": "delivery", "Webhook-Timestamp": at, "Webhook-Signature": "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)),
	} {
		req.Header.Set(name, value)
	}
	answer := httptest.NewRecorder()
	p.client.WebhookHandler(provider, v, nil).ServeHTTP(answer, req)
	l.tell("provider", p.name, "an event of %s: answered by %d: %s", provider, answer.Code, body)
	switch answer.Code {
	case http.StatusNoContent:
		return true
	case http.StatusServiceUnavailable:
	default:
		l.fault("a webhook was answered by %d: %s", answer.Code, answer.Body)
	}
	return false
}

// judgeUnknown reports a fault if an operation is unknown in the end though the provider shows the object.
func (l *life) judgeUnknown(op *journal.Operation) {
	for host, c := range l.world.contracts {
		if c.name != op.Provider || !c.finds || op.Reference == "" || op.Mode == "test" {
			continue
		}
		switch shown := l.world.shown(host, op.Reference); {
		case strings.HasSuffix(op.Attention, "took effect twice") && l.has(lookHooks) && l.has(standstills):
			// A hook that reads the ledger by names was asked about one generation, and answered with another's
			// effect.
		case len(shown) == 1:
			l.fault("%s is unknown, though its provider shows it: %s; %s; looked for %d times; %v", op.ID, op.Cause, op.Attention, op.Looks, op.Evidence)
		case len(shown) > 1:
			l.visit("left unknown of two objects")
		}
	}
}
