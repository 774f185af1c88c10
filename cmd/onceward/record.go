package main

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/journal"
)

// The types in this file are the stable JSON: names stay, and later releases may add more.

// operation is one operation.
type operation struct {
	Handle     string `json:"handle" doc:"its number in this journal, such as #12; never used again"`
	Scope      string `json:"scope,omitempty" doc:"the namespace of its name"`
	Parent     string `json:"parent,omitempty" doc:"what it belongs to: a key or a flow; of an unnamed one, left out"`
	ID         string `json:"id" doc:"its name; of an unnamed one its key, shortened unless --full-keys"`
	Flow       string `json:"flow,omitempty" doc:"the flow that it is a step of, and its handle"`
	InboundKey string `json:"inbound_key,omitempty" doc:"of the inbound request that it is a step of, by itself or by its flow; shortened unless --full-keys"`
	Naming     string `json:"naming" doc:"named, carried or generated"`
	Provider   string `json:"provider,omitempty"`
	Endpoint   string `json:"endpoint,omitempty" doc:"pattern of the endpoint in the provider's table"`
	State      string `json:"state" doc:"pending, in_flight, completed, unknown or cancelled"`
	Effect     string `json:"effect" doc:"what became of it at the provider: took effect, refused, not executed, unknown, pending, or not kept if its answer was reaped"`
	Generation int    `json:"generation" doc:"what resolve takes as --seen, before the dot"`
	Claim      int64  `json:"claim" doc:"what resolve takes as --seen, behind the dot"`
	Attempts   int    `json:"attempts"`
	Cause      string `json:"cause,omitempty" doc:"why it is pending, unknown or cancelled"`

	NeedsAttention string  `json:"needs_attention,omitempty" doc:"why it needs attention; left out if it does not"`
	Advice         *advice `json:"advice,omitempty" doc:"what to tell an operator of that"`

	MayHaveRun    bool       `json:"may_have_run" doc:"something may have been sent"`
	CreatedAt     time.Time  `json:"created_at"`
	UpdatedAt     time.Time  `json:"updated_at"`
	FirstSentAt   *time.Time `json:"first_sent_at,omitempty"`
	DueAt         *time.Time `json:"due_at,omitempty" doc:"pending: not sent before this; unknown: not repeated before this"`
	SettledAt     *time.Time `json:"settled_at,omitempty"`
	SafeUntil     *time.Time `json:"safe_until,omitempty" doc:"until when a resend is safe; left out where there is no window"`
	WindowLeft    *float64   `json:"window_left,omitempty" doc:"the share of the window that is left, from 0 to 1"`
	Delivered     bool       `json:"delivered" doc:"its outcome was delivered"`
	Tombstone     bool       `json:"tombstone,omitempty" doc:"its answer was reaped"`
	ByHand        bool       `json:"by_hand,omitempty" doc:"an operator cancelled it"`
	SecondEffects int        `json:"second_effects,omitempty" doc:"answers that prove a second effect"`
	Looks         int        `json:"looks,omitempty" doc:"how often it was looked for since it became unknown"`
	LookAt        *time.Time `json:"look_at,omitempty" doc:"when it is looked for next"`
	Object        string     `json:"object,omitempty" doc:"kind and id of the object that proves its effect"`
	SealedBy      string     `json:"sealed_by,omitempty" doc:"the key that --keys lacks: what it seals is left out"`
	Withdrawn     *word      `json:"withdrawn,omitempty" doc:"the operator who withdrew it"`
	Resolved      *word      `json:"resolved,omitempty" doc:"the operator who resolved it last"`
}

// word is a person's decision about an operation.
type word struct {
	Resolution string    `json:"resolution"`
	By         string    `json:"by,omitempty"`
	Why        string    `json:"why,omitempty"`
	At         time.Time `json:"at"`
}

// detail is an operation with all its facts.
type detail struct {
	operation
	Key        string         `json:"key,omitempty" doc:"on the wire, shortened unless --full-keys"`
	Trace      string         `json:"trace,omitempty" doc:"the traceparent of the request that caused it"`
	Terms      terms          `json:"terms" doc:"what its provider promised when it was begun"`
	Request    *message       `json:"request,omitempty"`
	Answer     *message       `json:"answer,omitempty"`
	LastAnswer *message       `json:"last_answer,omitempty" doc:"pending or unknown: the provider's last answer, which decided nothing"`
	Evidence   []evidence     `json:"evidence,omitempty" doc:"evidence from look-ups and webhooks, oldest first"`
	Rounds     []earlierRound `json:"earlier_generations,omitempty"`
}

type terms struct {
	Remembers        string  `json:"remembers" doc:"what the provider remembers of a key"`
	RetentionSeconds float64 `json:"retention_seconds,omitempty" doc:"for how long; left out: nothing is promised"`
	Guard            bool    `json:"guard" doc:"a second request is not executed while the first is worked on"`
	HandlingSeconds  float64 `json:"handling_seconds,omitempty" doc:"without a guard: the longest that a request is worked on"`
}

// message is a request or an answer. Bodies appear as their shape, unless they are revealed.
type message struct {
	Method   string   `json:"method,omitempty"`
	URL      string   `json:"url,omitempty" doc:"without its query"`
	Withheld []string `json:"withheld,omitempty" doc:"names of header fields and parameters that carried credentials, and were not kept"`
	Status   int      `json:"status,omitempty"`
	Headers  []string `json:"headers,omitempty" doc:"names of header fields"`
	SealedBy string   `json:"sealed_by,omitempty" doc:"the key that --keys lacks: headers and body are left out"`
	Size     int      `json:"size" doc:"of the body, in bytes; 0 if sealed"`
	Shape    []string `json:"shape,omitempty" doc:"the body's fields: where, type and size"`
	Body     *string  `json:"body,omitempty" doc:"with --reveal: the body, secrets masked"`
	Omitted  bool     `json:"omitted,omitempty" doc:"the body was not kept"`
	Cut      bool     `json:"cut,omitempty" doc:"the body ended early"`
	Refused  bool     `json:"refused,omitempty" doc:"the provider did its work, and nothing took effect"`
	ByHand   bool     `json:"by_hand,omitempty" doc:"an operator asserted it"`
	Found    bool     `json:"found,omitempty" doc:"a look or an event showed it"`
	Pointer  string   `json:"pointer,omitempty" doc:"the resource, where the answer only says that it exists"`
}

type evidence struct {
	At         time.Time `json:"at"`
	Generation int       `json:"generation"`
	Source     string    `json:"source"`
	Actor      string    `json:"actor,omitempty"`
	Target     string    `json:"target,omitempty"`
	Status     int       `json:"status,omitempty"`
	Finding    string    `json:"finding"`
	Basis      string    `json:"basis"`
	Object     string    `json:"object,omitempty"`
	Rule       string    `json:"rule,omitempty" doc:"source of the fact by which it was read"`
	Why        string    `json:"why,omitempty"`

	says string // in a sentence
}

type earlierRound struct {
	Generation int    `json:"generation"`
	Key        string `json:"key,omitempty"`
	Reference  string `json:"reference,omitempty"`
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func handleOf(n int64) string { return "#" + strconv.FormatInt(n, 10) }

func (c *command) key(key string) string {
	if c.fullKeys {
		return key
	}
	return shown.Key(key)
}

func wordOf(r *journal.Resolved) *word {
	if r == nil {
		return nil
	}
	return &word{r.Resolution.String(), r.By, r.Why, r.At}
}

// title returns the operation's name, after its flow's.
func (op *operation) title() string {
	if op.Flow == "" {
		return shown.Short(op.ID, 40)
	}
	return shown.Short(op.Flow, 30) + ": " + shown.Short(op.ID, 20)
}

func (c *command) operationOf(op *journal.Operation) operation {
	out := operation{
		Handle: handleOf(op.Handle), Scope: op.Scope, Parent: op.Parent, ID: op.ID, Naming: op.Naming.String(),
		Provider: op.Provider, Endpoint: op.Endpoint, State: op.State.String(), Effect: op.Effect().String(), Generation: op.Generation, Claim: op.Claim,
		Attempts: op.Attempts, Cause: op.Cause, NeedsAttention: op.NeedsAttention(c.now()), MayHaveRun: op.MayHaveRun,
		CreatedAt: op.CreatedAt, UpdatedAt: op.UpdatedAt, FirstSentAt: moment(op.FirstSentAt), DueAt: moment(op.DueAt), SettledAt: moment(op.SettledAt),
		Delivered: op.Delivered, Tombstone: op.Tombstone, ByHand: op.ByHand, SecondEffects: op.SecondEffects,
		Looks: op.Looks, LookAt: moment(op.LookAt), Object: op.Object, SealedBy: op.SealedBy, Withdrawn: wordOf(op.Withdrawn), Resolved: wordOf(op.Resolved),
	}
	out.Advice = adviceOf(shown.AttentionOf(op, c.now()))
	if kind, name := shown.Parent(op); kind == "flow" {
		out.Flow = name
	}
	out.InboundKey = c.key(seam.InboundKeyOf(op))
	if !c.fullKeys {
		if op.Naming != journal.Named {
			out.Parent = ""
			out.ID = shown.Key(op.ID)
		} else if _, ofFlow := seam.FlowOf(op.Parent); !ofFlow && op.Parent != "" { // it ends with a key
			at := strings.LastIndexByte(op.Parent, ' ') + 1
			out.Parent = shown.Text(op.Parent[:at]) + shown.Key(op.Parent[at:])
		}
	}
	if w, has := shown.WindowOf(op, c.now()); has && !op.State.Settled() {
		out.SafeUntil, out.WindowLeft = moment(w.Safe), &w.Share
	}
	return out
}

func (c *command) detailOf(op *journal.Operation, reveal bool) detail {
	d := detail{operation: c.operationOf(op), Key: c.key(op.Key), Trace: op.Trace, Terms: terms{
		op.Terms.Remembers.String(), op.Terms.Retention.Seconds(), op.Terms.Guard, op.Terms.Handling.Seconds(),
	}}
	if r := &op.Request; r.Method != "" {
		d.Request = &message{
			Method: r.Method, URL: withoutQuery(r.URL), Withheld: slices.Concat(r.WithheldHeaders, r.WithheldQuery), Headers: slices.Sorted(maps.Keys(r.Header)),
		}
		d.Request.body(r.Header.Get("Content-Type"), r.Body, reveal)
		d.Request.Omitted = op.BodyWithheld
	} else if op.SealedBy != "" {
		d.Request = &message{SealedBy: op.SealedBy}
	}
	d.Answer, d.LastAnswer = messageOf(op.Answer, op.SealedBy, reveal), messageOf(op.LastAnswer, op.SealedBy, reveal)
	for _, e := range op.Evidence {
		d.Evidence = append(d.Evidence, evidence{
			e.At, e.Generation, e.Source, e.Actor, e.Target, e.Status, e.Finding.String(), e.Basis.String(), e.Object, e.Rule, e.Why, shown.Evidence(&e),
		})
	}
	for _, r := range op.Rounds {
		d.Rounds = append(d.Rounds, earlierRound{r.Generation, c.key(r.Key), r.Reference})
	}
	return d
}

// messageOf returns an answer that may be nil, or sealed by a missing key.
func messageOf(a *journal.Answer, sealedBy string, reveal bool) *message {
	if a == nil {
		return nil
	}
	m := &message{
		Status: a.Status, Headers: slices.Sorted(maps.Keys(a.Header)), Omitted: a.Omitted, Cut: a.Cut, Refused: a.Refused,
		ByHand: a.ByHand, Found: a.Found, Pointer: secret.Text(a.Pointer),
	}
	if sealedBy != "" && a.Header == nil && a.Body == nil {
		m.SealedBy = sealedBy
		return m
	}
	m.body(a.Header.Get("Content-Type"), a.Body, reveal)
	return m
}

func (m *message) body(contentType string, body []byte, reveal bool) {
	m.Size = len(body)
	fields, _ := shown.Shape(contentType, body)
	for _, f := range fields {
		m.Shape = append(m.Shape, f.String())
	}
	if reveal {
		text := shown.Masked(contentType, body)
		m.Body = &text
	}
}

func withoutQuery(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return secret.URL(u)
}
