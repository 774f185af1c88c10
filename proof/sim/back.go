package sim

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
)

// comesBack has callers ask once more for operations that were cancelled long ago and have no effect. All is well by
// then, so each has to take effect.
func (l *life) comesBack(p *process) {
	if !l.has(returns) || l.has(modes) || l.has(accounts) || l.wasRestored() {
		return
	}
	l.mu.Lock()
	wants := append([]*errand(nil), l.wants...)
	l.mu.Unlock()
	for _, e := range wants {
		if e.trip != nil || e.naming != 0 || e.key != "" || e.scope != "" || e.outbox || e.contends || e.regretted || e.other > 0 || e.ledger != e.name || l.world.contracts[e.host].box != nil {
			continue
		}
		before, err := l.current().Get(context.Background(), journal.Ref{ID: e.name})
		made, more := l.world.count(e.name)
		switch {
		case made+more > 0 || e.asked == 0:
			continue
		case err == nil && before.State != journal.StateCancelled, err == nil && before.Withdrawn != nil:
			continue
		}
		req := l.order(onceward.WithOperation(context.Background(), e.name), e.host, e.name, "")
		if l.has(withheld) || l.has(looks) {
			req.Header.Set("Authorization", "Bearer live_"+canary)
		}
		l.world.asksAnew(e.name)
		resp, err := p.client.HTTPClient().Do(req)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		l.tell("caller", p.name, "%s is asked for once more: %v", e.name, err)
		l.visit("asked for once more")
		if made, _ := l.world.count(e.name); err != nil || resp.StatusCode/100 != 2 || made != 1 {
			l.fault("%s: all is well, it was cancelled, and whoever asks for it once more is told %v; it has %d effects", e.name, err, made)
		}
	}
}

// lets makes the operator release an operation on hold, or leave the hold. It reports whether the operator tried. A
// second release has to fail.
func (l *life) lets(p *process, op onceward.Operation) bool {
	random := l.dice("releases", op.ID, op.Claim, op.Generation)
	if !l.has(releases) || random.of(3) {
		return false
	}
	time.Sleep(random.within(time.Minute))
	released, err := p.client.Reinstate(context.Background(), op.Ref, onceward.ResolveOptions{By: "somebody"})
	l.tell("person", p.name, "lets %s go: %v, it is %v", op.ID, err, released.State)
	l.visit("let go")
	if err != nil {
		return true
	}
	_, err = p.client.Reinstate(context.Background(), released.Ref, onceward.ResolveOptions{By: "somebody"})
	if err == nil {
		l.fault("%s was let go by somebody, and once more", op.ID)
	}
	return true
}

// hearsBlind reports a fault if a process without the provider's table puts a caller off for longer than the
// operation waits. It counts only if no earlier caller's process had the table either.
func (l *life) hearsBlind(p *process, e *errand, since time.Time, err error) {
	var oe *onceward.Error
	if p.knows[e.host] || e.naming != 0 || l.has(clocks) || l.has(ailingJournal) || p.still.stood(since) || !errors.As(err, &oe) || oe.Kind != onceward.ErrPending {
		return
	}
	op, err := l.current().Get(context.Background(), oe.Operation.Ref)
	if err == nil && op.State == journal.StatePending && op.Provider == "" && !op.MayHaveRun && !op.DueAt.IsZero() && op.DueAt.Add(time.Second).Before(since) {
		l.fault("%s: its caller is put off, though it is due since %v", e.name, since.Sub(op.DueAt))
	}
}
