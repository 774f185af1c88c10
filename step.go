package onceward

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/onceward/onceward/internal/seam"
)

// parent is what the operations under a context are steps of. A context holds a
// pointer to it, and all contexts made from that one share it.
type parent struct {
	key Key

	// ref stands in Ref.Parent: the key, where it is one of our own. Else a word and
	// a space come before it, so that it equals no key, which holds no space.
	ref string

	endpoint string // of an inbound request: its steps are refused at any other; "": not compared

	scope  string                                // the scope that its steps have; "": any
	derive func(scope, step string) (Key, error) // the key of a step
	steps  *ordinals                             // makes up the steps of unnamed calls

	// Of an inbound request without a key: whose the names are that stand outside of it.
	// Where steps is nil, unnamed calls do, too.
	tenant func() (string, error)

	flow *seam.Parent // of a flow, whose steps have their own names; nil: of none
}

// whose tells whose the operations below are; nil: nobody says.
func (p *parent) whose() func() (string, error) {
	if p.tenant == nil && p.scope != "" {
		return func() (string, error) { return p.scope, nil }
	}
	return p.tenant
}

// ownParent is for a key that no stranger chose.
func ownParent(key Key) *parent {
	derive := func(scope, step string) (Key, error) { return key.childIn(scope, step), nil }
	return &parent{key: key, ref: string(key), derive: derive, steps: &ordinals{}}
}

// stepOf is what an unnamed call is called for: "POST api.stripe.com/v1/charges".
// It holds one space and no #, so that no step with an ordinal equals one without.
func stepOf(method string, u *url.URL) string {
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	return method + " " + hostOf(u) + path
}

// hostOf is the host as it is compared: without a port that is the scheme's own.
func hostOf(u *url.URL) string {
	host := strings.ToLower(u.Host)
	switch {
	case strings.EqualFold(u.Scheme, "https"):
		host = strings.TrimSuffix(host, ":443")
	case strings.EqualFold(u.Scheme, "http"):
		host = strings.TrimSuffix(host, ":80")
	}
	return host
}

// ordinals tells alike unnamed calls under one parent apart by their order.
type ordinals struct {
	mu    sync.Mutex
	alike map[string]*alike
}

// alike are the calls that are called for the same.
type alike struct {
	last     int            // the latest ordinal
	answered bool           // its caller has its whole answer
	carried  map[string]int // ordinals by the keys that calls had already
	running  bool
	crossed  bool // two ran at once: their order was chance
}

// take gives a call its ordinal among those called for the same. One after a call
// that was answered is the next. One after a call that was not has the same ordinal:
// its caller is trying again, and a step of its own could be a second effect. So has
// one with the same carried key. Calls that run at once have no order.
func (o *ordinals) take(what, carried string) (ordinal int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	a := o.alike[what]
	if a == nil {
		if o.alike == nil {
			o.alike = map[string]*alike{}
		}
		a = &alike{last: 1, carried: map[string]int{}}
		o.alike[what] = a
	}
	if a.running || a.crossed {
		a.crossed = true
		return 0, fmt.Errorf("another unnamed %s ran at the same time under its parent", what)
	}
	a.running = true
	if n, again := a.carried[carried]; again {
		return n, nil
	}
	if a.answered {
		a.last, a.answered = a.last+1, false
	}
	if carried != "" {
		a.carried[carried] = a.last
	}
	return a.last, nil
}

// leave ends what take began.
func (o *ordinals) leave(what string, ordinal int, answered bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	a := o.alike[what]
	a.running = false
	if ordinal == a.last && answered {
		a.answered = true
	}
}

// nameStep gives an unnamed call under a parent its name. The caller calls leave with
// what the call came to.
func (k *call) nameStep() (leave func(*http.Response, error), err error) {
	if leave, err = k.takeStep(); err != nil && k.ctx.Err() != nil {
		err = k.notBegun(context.Cause(k.ctx))
	}
	return leave, err
}

func (k *call) takeStep() (leave func(*http.Response, error), err error) {
	if seam.IsInTransaction(k.ctx) {
		return nil, k.fail(ErrOpenTransaction, nil)
	}
	p := k.name.parent
	if p != nil && p.flow != nil {
		return k.takeFlowStep()
	}
	if p == nil || k.name.named {
		return func(*http.Response, error) {}, nil
	}
	what := stepOf(k.req.Method, k.req.URL)
	ordinal, err := p.steps.take(what, k.carried)
	if err != nil {
		return nil, k.fail(ErrNameNeeded, err)
	}
	leave = func(resp *http.Response, _ error) { p.steps.leave(what, ordinal, whole(resp)) }
	k.name.id, k.name.named = what, true
	if ordinal > 1 {
		k.name.id = fmt.Sprintf("%s #%d", what, ordinal)
	}
	if err := k.name.check(); err != nil {
		leave(nil, nil)
		return nil, k.fail(ErrNameNeeded, err)
	}
	if err := k.decideKey(Key(k.carried), k.carried != ""); err != nil {
		leave(nil, nil)
		return nil, k.fail(ErrInvalidRequest, err)
	}
	return leave, nil
}

// takeFlowStep gives a call within a flow its name: that of its step. The caller calls
// leave with what the call came to.
func (k *call) takeFlowStep() (leave func(*http.Response, error), err error) {
	flow := k.name.parent.flow
	step := flow.Step
	switch {
	case step == nil:
		return nil, k.fail(ErrNameNeeded, errors.New("it is made in a flow and outside its steps: make it in a Step"))
	case k.client.journal != flow.Journal:
		return nil, k.fail(ErrInvalidRequest, errors.New("its flow is in another journal than its client's"))
	case k.name.scope != flow.Scope:
		return nil, k.fail(ErrInvalidRequest, errors.New("the scope of an operation in a flow is the flow's: leave out WithScope"))
	}
	id, named := step.ID(), k.name.named
	if named {
		id += "/" + k.name.id
	}
	if err := step.Take(named); err != nil {
		return nil, k.fail(ErrNameNeeded, err)
	}
	k.name.id, k.name.named = id, true
	leave = func(resp *http.Response, err error) {
		step.Left(k.ref, named, resp, err, k.ctx.Err() == nil && lacksCredential(err), k.asked)
	}
	err = k.name.check()
	if err == nil {
		err = k.decideKey(Key(k.carried), k.carried != "")
	}
	if err != nil {
		leave(nil, nil)
		return nil, k.fail(ErrInvalidRequest, err)
	}
	if err := step.Note(k.ctx, k.ref); err != nil {
		leave(nil, nil)
		if errors.Is(err, ErrNotSent) {
			return nil, k.fail(ErrNotSent, err)
		}
		return nil, k.fail(ErrJournal, err)
	}
	return leave, nil
}

// whole tells whether a caller gets, by resp, all of an operation's answer.
func whole(resp *http.Response) bool {
	op, ok := OperationOf(resp)
	return ok && op.State == StateCompleted && op.Answer != nil && !op.Answer.Omitted && !op.Answer.Cut
}
