package console

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/journal"
)

// finding is a problem that an operator has to look at.
type finding struct {
	Urgent bool
	Says   string
	Link   string
}

// The bounds on a page's reads, so that it is fast for any journal.
const (
	mostPending = 2000 // the oldest pending operations, whose windows are checked
	mostRecent  = 500  // the newest operations, which are searched for a second effect
	lookFor     = 100 * time.Millisecond
)

// The findings' thresholds. A clock is off by the alert's threshold.
const (
	clockMargin = time.Minute
	longPending = 15 * time.Minute
)

func (c *console) overview(w http.ResponseWriter, r *http.Request, _ string) error {
	s, err := c.live.now(r.Context())
	if err != nil {
		return err
	}
	findings, err := c.findings(r.Context(), &s)
	if err != nil {
		return err
	}
	received, err := c.counted(r.Context())
	if err != nil {
		return err
	}
	c.render(w, r, http.StatusOK, "overview", &page{Heading: "Overview", Stats: &s, Findings: findings, Received: received, Picture: statePicture(&s),
		Charts: c.Hour.charts(c.now(), c.Client != nil)})
	return nil
}

// findings returns the problems for an operator, the urgent first.
func (c *console) findings(ctx context.Context, s *journal.Stats) (list []finding, err error) {
	now := c.now()
	if s.Restored != "" {
		list = append(list, finding{true, "The journal was restored or copied: it " + shown.Text(s.Restored) + ". Nothing is sent until it is adopted.", ""})
	}
	if n := unsaved(c.Client); n > 0 {
		list = append(list, finding{true, counted(n, "record is", "records are") +
			" only in this process's memory, since the journal fails. Repair the journal before you stop the process.", ""})
	}
	if ahead := s.Last.Sub(now); !s.Last.IsZero() && ahead > clockMargin {
		list = append(list, finding{true, "This machine's clock stands " + shown.Duration(ahead) +
			" behind the latest time in the journal: one of the two is wrong, and windows are judged by the later time.", ""})
	}
	twice, err := c.twice(ctx)
	if err != nil {
		return nil, err
	}
	for _, op := range twice {
		list = append(list, finding{true, shown.ID(&op) + " took effect more than once.", operationLink(op.Handle)})
	}
	if s.NeedsAttention > 0 {
		list = append(list, finding{true, counted(s.NeedsAttention, "operation or flow needs", "operations and flows need") + " attention.", "attention"})
	}
	if n, err := c.counted(ctx); err != nil {
		return nil, err
	} else if n != nil && n.Reserved > 0 {
		list = append(list, finding{true, counted(n.Reserved, "receipt is", "receipts are") + " reserved without an answer: the outcome is unknown.", "attention"})
	}
	closing, soonest, at, err := c.closing(ctx)
	if err != nil {
		return nil, err
	}
	if closing > 0 {
		list = append(list, finding{soonest <= time.Hour, fmt.Sprintf("%s less than a quarter of the window left, the first of them %s.",
			counted(int64(closing), "pending operation has", "pending operations have"), shown.Duration(soonest)), operationLink(at)})
	}
	if waits := now.Sub(s.OldestPending); s.Pending > 0 && !s.OldestPending.IsZero() && waits > longPending {
		list = append(list, finding{false, counted(s.Pending, "operation is", "operations are") + " pending, the first of them for " + shown.Duration(waits) + ".",
			"operations?state=pending&order=oldest"})
	}
	if s.Unknown > 0 {
		says := counted(s.Unknown, "operation", "operations") + " may or may not have taken effect"
		if !s.OldestUnknown.IsZero() {
			says += ", the first of them for " + shown.Duration(now.Sub(s.OldestUnknown))
		}
		list = append(list, finding{false, says + ".", "operations?state=unknown&order=oldest"})
	}
	if s.Undelivered > 0 {
		list = append(list, finding{false, counted(s.Undelivered, "outcome has", "outcomes have") + " not been delivered yet.", "operations?show=undelivered"})
	}
	return list, nil
}

func counted(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return grouped(n) + " " + many
}

// twice returns the newest operations with a proven second effect.
func (c *console) twice(ctx context.Context) (ops []journal.Operation, err error) {
	ops, _, err = shown.Page(c.Journal.List(ctx, journal.Filter{Newest: true, Limit: mostRecent}), mostRecent,
		func(op *journal.Operation) bool { return op.SecondEffects > 0 }, itself)
	return ops, err
}

// closing counts the oldest pending operations whose window ends soon.
func (c *console) closing(ctx context.Context) (n int, soonest time.Duration, handle int64, err error) {
	began, now := time.Now(), c.now()
	for op, err := range c.Journal.List(ctx, journal.Filter{States: []journal.State{journal.StatePending}, Limit: mostPending}) {
		if err != nil {
			return 0, 0, 0, err
		}
		if w, has := shown.WindowOf(&op, now); has && w.Share < shown.Closing {
			if n == 0 || w.Left < soonest {
				soonest, handle = w.Left, op.Handle
			}
			n++
		}
		if time.Since(began) > lookFor/2 {
			break
		}
	}
	return n, soonest, handle, nil
}
