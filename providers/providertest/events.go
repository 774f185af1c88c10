package providertest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/providers"
)

// Events makes the server send events to a URL, and list them if the table has a Feed. Each effect, and each
// [Server.Turn], sends one event for each covering row of the table's Events. A table without such a row sends none.
// Events are signed in the provider's scheme under secret, the secret for package webhook, with these exceptions:
//
//   - Wise: the private key in PEM;
//   - Braintree: both keys, separated by a colon;
//   - a Standard Webhooks Ed25519 key: "whsk_" and the base64 of its seed;
//   - PayPal: [Server.SignEvent] signs.
//
// A row without an endpoint covers an effect if its type contains the name of the endpoint's Object. If some rows' type
// has the last name in the effect's path, only these rows cover it: a POST to /ach_transfers sends no
// check_transfer.created. Rows with Thin always cover it.
//
// Times in an event are the server's. The time of its signature is the machine's. The server repeats an event until a
// 2xx arrives: after a minute of the server's clock, five, half an hour, and then every two hours for three days.
func (s *Server) Events(url, secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.eventURL, s.eventSecret = url, secret
}

// ScriptEvents appends deliveries for the next events, one each, in the order of their causes. They precede
// [Server.EveryEvent].
func (s *Server) ScriptEvents(manners ...EventManner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.eventScript = append(s.eventScript, manners...)
}

// EveryEvent delivers every later event without a script in this manner.
func (s *Server) EveryEvent(manner EventManner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.eventManner, s.eventDraw = manner, nil
}

// EventMix has the probability for each defect in an event, from 0 to 1, drawn independently. The fields are those of
// [EventManner]. Duplicate is one repeat.
type EventMix struct {
	Lose, Duplicate, Reorder, BeforeResponse, Thin, Forged, OtherMode float64

	// MaxDelay bounds the delays, which are drawn evenly. Zero means no delays.
	MaxDelay time.Duration
}

// SeedEvents draws the delivery for each later event that is not scripted, instead of [Server.EveryEvent]. The draw
// depends only on the seed and the number of earlier events, so the same seed repeats the draw.
func (s *Server) SeedEvents(seed uint64, mix EventMix) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.eventDraw = func(number int) EventManner { return mix.draw(seed, number) }
}

func (m EventMix) draw(seed uint64, number int) EventManner {
	random := rand.New(rand.NewPCG(seed, uint64(number)))
	has := func(odds float64) bool { return random.Float64() < odds }
	manner := EventManner{
		Lose: has(m.Lose), Reorder: has(m.Reorder), BeforeResponse: has(m.BeforeResponse),
		Thin: has(m.Thin), Forged: has(m.Forged), OtherMode: has(m.OtherMode),
		Delay: time.Duration(random.Float64() * float64(m.MaxDelay)),
	}
	if has(m.Duplicate) {
		manner.Duplicates = 1
	}
	return manner
}

// Tell sends events of these types about the object with an id, as if they happened now. Use Tell for rows that do not
// show enough for [Server.Events], and for events without a cause. It reports whether the object and rows of all these
// types exist. Deliveries before a response are complete when it returns.
func (s *Server) Tell(id string, types ...string) bool {
	s.mu.Lock()
	var about *creation
	for _, o := range s.made {
		if o.id == id {
			about = o
		}
	}
	all, early := about != nil, []*event(nil)
	for _, kind := range types {
		at := slices.IndexFunc(s.provider.Events, func(r providers.EventRule) bool {
			return r.Equals == kind && (r.Endpoint == "" || about != nil && r.Endpoint == about.endpoint.Pattern)
		})
		if all = all && at >= 0; all {
			early = append(early, s.happen(about, &s.provider.Events[at])...)
		}
	}
	s.mu.Unlock()
	for _, e := range early {
		s.deliver(e)
	}
	return all
}

// Deliveries returns the deliveries of events in their order, without the lost ones.
func (s *Server) Deliveries() []Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.deliveries)
}

// eventRetries are the times between the tries of an event; the last one repeats.
var eventRetries = []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour}

const (
	eventDelay   = time.Second
	eventHeld    = time.Hour
	eventGivenUp = 72 * time.Hour
)

// happens makes the events of an object's state, and returns the ones to deliver at once. s.mu is held.
func (s *Server) happens(o *creation, what providers.Outcome) (atOnce []*event) {
	var all, named []*providers.EventRule
	told := map[string]bool{} // types of events: rows that differ in a state are one event's
	kind := letters(strings.TrimSuffix(path.Base(o.url), "s"))
	for i := range s.provider.Events {
		rule := &s.provider.Events[i]
		if !tells(rule, o) || rule.Is != what && !rule.Thin || told[rule.Equals] {
			continue
		}
		told[rule.Equals] = true
		all = append(all, rule)
		if strings.Contains(letters(rule.Equals), kind) {
			named = append(named, rule)
		}
	}
	if len(named) > 0 { // an endpoint for all kinds of objects has events of all kinds
		all = named
	}
	// An event without a mark of the request, beside events with a mark, is about a later state, such as a dispute's
	// end.
	isLater := func(rule *providers.EventRule) bool { return rule.Key == "" && rule.Reference == "" && !rule.Thin }
	if slices.ContainsFunc(all, func(rule *providers.EventRule) bool { return !isLater(rule) }) {
		all = slices.DeleteFunc(all, isLater)
	}
	for _, rule := range all {
		atOnce = append(atOnce, s.happen(o, rule)...)
	}
	return atOnce
}

// happen is happens for one event.
func (s *Server) happen(o *creation, rule *providers.EventRule) (atOnce []*event) {
	if s.eventURL == "" {
		return nil
	}
	s.eventCount++
	e := &event{id: fmt.Sprintf("evt_%d", s.eventCount), rule: rule, seq: o.seq, manner: s.nextManner(), to: s.eventURL, secret: s.eventSecret}
	e.at, e.world = s.now(), o.world
	e.body = s.eventBody(e, o)
	e.item = s.listedItem(e)
	if e.item != nil && !e.manner.Never {
		s.events = append(s.events, e)
	}
	switch m := e.manner; {
	case m.Lose, m.Never:
	case m.BeforeResponse:
		return []*event{e}
	case m.Reorder:
		s.heldEvents = append(s.heldEvents, e)
		s.at(s.now().Add(eventHeld), func() { s.deliverHeld(e) })
	default:
		s.at(s.now().Add(cmp.Or(m.Delay, eventDelay)), func() { s.deliver(e) })
	}
	return nil
}

func (s *Server) nextManner() EventManner {
	switch {
	case len(s.eventScript) > 0:
		next := s.eventScript[0]
		s.eventScript = s.eventScript[1:]
		return next
	case s.eventDraw != nil:
		return s.eventDraw(s.eventCount)
	}
	return s.eventManner
}

// tells reports whether a row speaks of the object.
func tells(rule *providers.EventRule, o *creation) bool {
	if rule.Endpoint != "" {
		return rule.Endpoint == o.endpoint.Pattern
	}
	kind := letters(o.endpoint.Object)
	return kind != "" && strings.Contains(letters(rule.Equals), kind)
}

// letters returns a name's letters, without the separators between its words.
func letters(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "", ".", "").Replace(name))
}

// eventBody writes the event as the row has it.
func (s *Server) eventBody(e *event, o *creation) []byte {
	rule := e.rule
	var item any
	switch within := steps(rule.Object); {
	case rule.Object == "":
	case len(within) == 1 || e.manner.Thin || rule.Thin:
		item = put(item, within, o.id, itself)
	default:
		item = put(nested(o.shown(), rule.Object), within, o.id, itself)
	}
	if !e.manner.Thin {
		if v, has := o.value("key"); has && rule.Key != "" {
			item = put(item, steps(rule.Key), v, itself)
		}
		if v, has := o.value("reference"); has && rule.Reference != "" {
			item = put(item, steps(rule.Reference), v, itself)
		}
		item = o.agree(item, rule.Also)
	}
	account, live := o.world.account, o.world.mode != "test"
	if e.manner.Account != "" {
		account = e.manner.Account
	}
	if e.manner.OtherMode {
		live = !live
	}
	seconds := s.unixTimes()
	for _, set := range []struct {
		path  string
		value any
	}{
		{rule.Field, rule.Equals},
		{rule.ID, e.id},
		{rule.At, stamp(s.now(), seconds)},
		{rule.Created, stamp(o.at, seconds)},
		{rule.Account, account},
		{rule.Live, live},
	} {
		if set.path != "" {
			item = put(item, steps(set.path), set.value, itself)
		}
	}
	if e.manner.Bulk > 0 {
		item = put(item, steps("bulk"), strings.Repeat("x", e.manner.Bulk), itself)
	}
	switch rule.Items {
	case "":
	case "[]":
		item = []any{item}
	default:
		item = put(nil, steps(strings.TrimSuffix(rule.Items, "[]")), []any{item}, itself)
	}
	return answerOf(http.StatusOK, item).Body
}

// unixTimes reports whether the provider writes times as seconds.
func (s *Server) unixTimes() bool {
	for i := range s.provider.Endpoints {
		for _, look := range s.provider.Endpoints[i].Lookups {
			if look.TimeLayout == "unix" {
				return true
			}
		}
	}
	return s.provider.Name == "stripe"
}

// deliverHeld sends a held event, once.
func (s *Server) deliverHeld(e *event) {
	s.mu.Lock()
	at := slices.Index(s.heldEvents, e)
	if at >= 0 {
		s.heldEvents = slices.Delete(s.heldEvents, at, at+1)
	}
	s.mu.Unlock()
	if at >= 0 {
		s.deliver(e)
	}
}

// deliver sends an event and its repeats, and then the events that waited for the first.
func (s *Server) deliver(e *event) {
	s.mu.Lock()
	first := !e.sent
	e.sent = true
	s.mu.Unlock()
	s.try(e, 0, 0)
	if !first {
		return
	}
	s.mu.Lock()
	for n := range e.manner.Duplicates {
		s.at(s.now().Add(time.Duration(n+1)*eventDelay), func() { s.try(e, 0, 0) })
	}
	held := s.heldEvents
	s.heldEvents = nil
	s.mu.Unlock()
	for _, e := range held {
		s.deliver(e)
	}
}

// try sends an event once, and schedules another try if the receiver did not take it.
func (s *Server) try(e *event, tries int, waited time.Duration) {
	d := Delivery{Event: e.id, Type: e.rule.Equals, Effect: e.seq, Manner: e.manner, At: s.Now()}
	d.Status, d.Err = s.send(e)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deliveries = append(s.deliveries, d)
	if d.Status >= 200 && d.Status <= 299 {
		e.taken = true
		return
	}
	pause := eventRetries[min(tries, len(eventRetries)-1)]
	if waited += pause; waited <= eventGivenUp {
		s.at(s.now().Add(pause), func() { s.try(e, tries+1, waited) })
	}
}

func (s *Server) signed(g Signing, h http.Header, body []byte) ([]byte, error) {
	if s.SignEvent != nil {
		return s.SignEvent(g, h, body)
	}
	return Sign(s.provider.Name, g, h, body)
}

// send sends an event and returns the status of the answer.
func (s *Server) send(e *event) (status int, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-s.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	header := http.Header{"Content-Type": {"application/json"}, "User-Agent": {"providertest"}}
	g := Signing{Secret: e.secret, ID: "msg_" + e.id, At: time.Now(), URL: e.to, Forged: e.manner.Forged}
	body, err := s.signed(g, header, bytes.Clone(e.body))
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.to, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header = header
	client := cmp.Or(s.EventClient, http.DefaultClient)
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxBody))
	return resp.StatusCode, err
}
