package console

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/journal"
)

// revealed has an operation's bodies, with secrets masked.
type revealed struct{ Request, Answer string }

// because returns the operator's reason.
func because(r *http.Request) (string, error) {
	why := strings.TrimSpace(r.PostFormValue("because"))
	if why == "" {
		return "", &failure{status: http.StatusBadRequest, says: "A reason is needed, which is recorded. Nothing was done.", link: back(r)}
	}
	return why, nil
}

// back returns the form's place.
func back(r *http.Request) string {
	if n, err := strconv.ParseInt(r.PostFormValue("h"), 10, 64); err == nil {
		return operationLink(n)
	}
	return "operations"
}

func (c *console) reveal(w http.ResponseWriter, r *http.Request, actor string) error {
	why, err := because(r)
	if err != nil {
		return err
	}
	op, err := c.byHandle(r)
	if err != nil {
		return err
	}
	c.Logger.InfoContext(r.Context(), "onceward console: bodies revealed", "actor", actor, "because", secret.Recorded(why), "operation", op.Handle)
	bodies := &revealed{Request: shown.Masked(op.Request.Header.Get("Content-Type"), op.Request.Body)}
	if a := cmp.Or(op.Answer, op.LastAnswer); a != nil {
		bodies.Answer = shown.Masked(a.Header.Get("Content-Type"), a.Body)
	}
	return c.showOperation(w, r, http.StatusOK, &op, &page{Revealed: bodies})
}

// seen returns the generation and claim that the operator looked at.
func seen(r *http.Request, op *journal.Operation) (onceward.Seen, error) {
	generation, err := strconv.Atoi(r.PostFormValue("generation"))
	claim, other := strconv.ParseInt(r.PostFormValue("claim"), 10, 64)
	if errors.Join(err, other) != nil {
		return onceward.Seen{}, &failure{status: http.StatusBadRequest, says: "The form does not name the version that you read. Nothing was done.", link: back(r)}
	}
	return onceward.Seen{Ref: op.Ref, Generation: generation, Claim: claim}, nil
}

var resolutions = map[string]journal.Resolution{"executed": journal.Executed, "not_executed": journal.NotExecuted, "send_again": journal.SendAgain}

func (c *console) resolve(w http.ResponseWriter, r *http.Request, actor string) error {
	as, known := resolutions[r.PostFormValue("as")]
	if !known {
		return &failure{status: http.StatusBadRequest, says: "Say what became of it. Nothing was done.", link: back(r)}
	}
	return c.settle(w, r, actor, as, func(o *operation) error {
		if as == journal.SendAgain && !o.MaySendAgain {
			return &failure{status: http.StatusConflict, says: "It will be sent by itself, with its own key. Nothing was done.", link: back(r)}
		}
		return nil
	}, "resolved")
}

func (c *console) cancel(w http.ResponseWriter, r *http.Request, actor string) error {
	return c.settle(w, r, actor, journal.NotExecuted, func(o *operation) error {
		if !o.MayCancel {
			return &failure{status: http.StatusConflict, says: "Something of it may have been sent, or it has an outcome: it can't be cancelled. Nothing was done.", link: back(r)}
		}
		return nil
	}, "cancelled")
}

// settle records an operator's decision about an operation.
func (c *console) settle(w http.ResponseWriter, r *http.Request, actor string, as journal.Resolution, allowed func(*operation) error, done string) error {
	why, err := because(r)
	if err != nil {
		return err
	}
	op, err := c.byHandle(r)
	if unlessSealed(err) != nil {
		return err
	}
	looked, err := seen(r, &op)
	if err != nil {
		return err
	}
	if looked.Generation == op.Generation && looked.Claim == op.Claim { // else it has changed, as Resolve says
		o, err := c.operationOf(r.Context(), &op)
		if err == nil {
			err = allowed(o)
		}
		if err != nil {
			return err
		}
	}
	_, err = c.Client.Resolve(r.Context(), looked, as, onceward.ResolveOptions{By: actor, Why: why})
	conflict := func(says string) error {
		return &failure{status: http.StatusConflict, says: says + " Nothing was done.", link: operationLink(op.Handle)}
	}
	switch {
	case errors.Is(err, onceward.ErrMoved):
		return conflict("It has changed since you read it: it is " + stateWord(op.State) + " now, in generation " + strconv.Itoa(op.Generation) +
			" and claim " + strconv.FormatInt(op.Claim, 10) + ". Read it again.")
	case errors.Is(err, onceward.ErrInFlight):
		return conflict("A process is sending it now.")
	case errors.Is(err, onceward.ErrAnswerGone), errors.Is(err, journal.ErrInvalidEvent):
		return conflict("This decision is not possible: its outcome is known, or there is evidence against it.")
	case errors.Is(err, journal.ErrRestored):
		return conflict("The journal was restored or copied, and decides nothing until it is adopted.")
	case err != nil:
		return err
	}
	c.Logger.InfoContext(r.Context(), "onceward console: "+done, "actor", actor, "resolution", as.String(), "because", secret.Recorded(why), "operation", op.Handle)
	seeOther(w, operationLink(op.Handle)+"&done="+done)
	return nil
}

// flowOf returns a request's whole flow. If a key is missing, flowOf returns the other fields with ErrSealed.
func (c *console) flowOf(r *http.Request) (f journal.Flow, err error) {
	if c.flows == nil {
		return f, journal.ErrNotFound
	}
	return c.flows.GetFlow(r.Context(), journal.Ref{Scope: r.FormValue("scope"), Parent: r.FormValue("parent"), ID: r.FormValue("name")})
}

func (c *console) flow(w http.ResponseWriter, r *http.Request, _ string) error {
	f, err := c.flowOf(r)
	if unlessSealed(err) != nil {
		return err
	}
	c.render(w, r, http.StatusOK, "flow", &page{Heading: shown.Short(f.ID, 80), Flow: &f, Notice: notices[r.URL.Query().Get("done")]})
	return nil
}

func (c *console) retry(w http.ResponseWriter, r *http.Request, actor string) error {
	return c.sayOfFlow(w, r, actor, machine.FlowEvent{Kind: machine.FlowEventRetry}, "retried")
}

func (c *console) giveUp(w http.ResponseWriter, r *http.Request, actor string) error {
	why, err := because(r)
	if err != nil {
		return err
	}
	return c.sayOfFlow(w, r, actor, machine.FlowEvent{Kind: machine.FlowEventGiveUp, Cause: secret.Recorded(why)}, "given-up")
}

func (c *console) sayOfFlow(w http.ResponseWriter, r *http.Request, actor string, ev machine.FlowEvent, done string) error {
	f, err := c.flowOf(r)
	if err != nil {
		return err
	}
	link := flowLink(&f)
	switch claim, err := strconv.ParseInt(r.PostFormValue("claim"), 10, 64); {
	case err != nil:
		return &failure{status: http.StatusBadRequest, says: "The form does not name the version that you read. Nothing was done.", link: link}
	case claim != f.Claim || r.PostFormValue("h") != strconv.FormatInt(f.Handle, 10):
		return &failure{status: http.StatusConflict, says: "It was run since you read it: it is " + flowWord(f.State) + " now. Nothing was done.", link: link}
	}
	ev.Ref, ev.Handle, ev.At = f.Ref, f.Handle, c.now()
	res, err := c.flows.ApplyFlow(r.Context(), ev)
	switch {
	case errors.Is(err, journal.ErrInvalidEvent):
		return &failure{status: http.StatusConflict, says: "It has come to its end. Nothing was done.", link: link}
	case err != nil:
		return err
	case res.Decision != machine.Recorded:
		return &failure{status: http.StatusConflict, says: "It is being run just now, or has ended. Nothing was done.", link: link}
	}
	c.Logger.InfoContext(r.Context(), "onceward console: "+done, "actor", actor, "flow", f.Handle)
	seeOther(w, link+"&done="+done)
	return nil
}
