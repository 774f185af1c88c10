package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/internal/shown"
)

// stats is a journal's state, over all processes.
type stats struct {
	At             time.Time  `json:"at"`
	Pending        int64      `json:"pending"`
	InFlight       int64      `json:"in_flight"`
	Unknown        int64      `json:"unknown"`
	Cancelled      int64      `json:"cancelled"`
	Begun          int64      `json:"begun" doc:"all that were ever begun; operations in none of the states above are completed, or were reaped"`
	Due            int64      `json:"due" doc:"of the pending ones: due to be sent"`
	Undelivered    int64      `json:"undelivered" doc:"operations with an outcome that is still to be delivered; an unknown one that is looked for has none yet"`
	Flows          flowCounts `json:"flows"`
	NeedsAttention int64      `json:"needs_attention" doc:"operations, flows, receipts and listed events that need attention: as many as attention lists"`

	Receipts *receiptCounts `json:"receipts,omitempty" doc:"left out: there are none"`

	OldestPending *time.Time `json:"oldest_pending,omitempty" doc:"when the oldest pending operation was begun"`
	OldestUnknown *time.Time `json:"oldest_unknown,omitempty" doc:"when the oldest unknown operation became unknown"`

	OldestUndelivered *time.Time `json:"oldest_undelivered,omitempty"`
	OldestSetAside    *time.Time `json:"oldest_set_aside,omitempty" doc:"of flows"`
	Last              *time.Time `json:"last,omitempty" doc:"the latest time that the journal has seen"`

	Restored    bool   `json:"restored" doc:"it was copied or restored, and sends nothing until it is adopted"`
	RestoredWhy string `json:"restored_why,omitempty"`
	Sessions    int64  `json:"sessions" doc:"begun and not ended; one whose process died counts until another one notices"`
	FileBytes   int64  `json:"file_bytes" doc:"of the file, or of the tables"`
	WALBytes    int64  `json:"wal_bytes" doc:"0 in a database"`
}

// flowCounts counts flows by their state.
type flowCounts struct {
	Running  int64 `json:"running"`
	Waiting  int64 `json:"waiting"`
	SetAside int64 `json:"set_aside"`
	Begun    int64 `json:"begun" doc:"all that were ever begun"`
}

// receipts returns the receipt counts, which are zero if there are none.
func (s *stats) receipts() receiptCounts {
	if s.Receipts == nil {
		return receiptCounts{}
	}
	return *s.Receipts
}

// completed returns how many operations are in no other state, including reaped ones.
func (s *stats) completed() int64 { return s.Begun - s.Pending - s.InFlight - s.Unknown - s.Cancelled }

func (s *stats) table(t *table) {
	t.row("STATE", "COUNT", "OLDEST")
	row := func(name string, n int64, oldest *time.Time) { t.row(name, text(n), t.moment(oldest)) }
	row("pending", s.Pending, s.OldestPending)
	row("in flight", s.InFlight, nil)
	row("unknown", s.Unknown, s.OldestUnknown)
	row("cancelled", s.Cancelled, nil)
	row("completed or reaped", s.completed(), nil)
	t.flush()
	row("due", s.Due, nil)
	row("needs attention", s.NeedsAttention, nil)
	row("undelivered", s.Undelivered, s.OldestUndelivered)
	row("flows running", s.Flows.Running, nil)
	row("flows waiting", s.Flows.Waiting, nil)
	row("flows set aside", s.Flows.SetAside, s.OldestSetAside)
	if n := s.Receipts; n != nil {
		row("receipts completed", n.Completed, nil)
		row("receipts reserved", n.Reserved, n.OldestReserved)
	}
	t.flush()
	t.fact("sessions", text(s.Sessions))
	if size := shown.Bytes(s.FileBytes); s.WALBytes > 0 {
		t.fact("size", size+", WAL "+shown.Bytes(s.WALBytes))
	} else {
		t.fact("size", size)
	}
	if s.Restored {
		t.line("RESTORED: it " + shown.Text(s.RestoredWhy) + "; nothing is sent until it is adopted")
	}
}

func (c *command) statsCommand() *cobra.Command {
	var failIf []string
	cmd := &cobra.Command{
		Use: "stats", Short: "Count what there is", Args: exactly(0, ""),
		Long: "stats counts what there is. With --fail-if it exits with 5 if a condition holds, for health checks: " + measureNames() +
			", compared by > with a number or, ages, a duration: --fail-if 'unknown-age>1h'.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			conditions, err := parsedConditions(failIf)
			if err != nil {
				return err
			}
			return c.using(cmd.Context(), access{}, func(s store) error {
				now, err := c.statsOf(cmd.Context(), s)
				if err != nil {
					return err
				}
				if err := c.say(&now); err != nil {
					return err
				}
				for _, condition := range conditions {
					if condition.holds(&now) {
						c.tell("onceward: %s holds", condition.text)
						err = errFindings
					}
				}
				return err
			})
		},
	}
	cmd.Flags().StringArrayVar(&failIf, "fail-if", nil, "exit with 5 if this holds, such as unknown>0 or unknown-age>1h")
	return cmd
}

func (c *command) statsOf(ctx context.Context, from store) (stats, error) {
	s, err := shown.ReadStats(ctx, from, c.at(from))
	if err != nil {
		return stats{}, err
	}
	receipts, err := countReceipts(ctx, from)
	if receipts != nil {
		s.NeedsAttention += receipts.Reserved
	}
	return stats{
		At: c.at(from).UTC(), Pending: s.Pending, InFlight: s.InFlight, Unknown: s.Unknown, Cancelled: s.Cancelled, Begun: s.Begun, Due: s.Due, NeedsAttention: s.NeedsAttention,
		Undelivered: s.Undelivered, Flows: flowCounts{s.FlowsRunning, s.FlowsWaiting, s.FlowsSetAside, s.FlowsBegun},
		OldestPending: moment(s.OldestPending), OldestUnknown: moment(s.OldestUnknown), OldestUndelivered: moment(s.OldestUndelivered),
		OldestSetAside: moment(s.OldestSetAside), Last: moment(s.Last), Restored: s.Restored != "", RestoredWhy: s.Restored, Sessions: s.Sessions,
		FileBytes: s.FileBytes, WALBytes: s.WALBytes, Receipts: receipts,
	}, err
}

// measures has the values that --fail-if compares: counts, and ages in seconds.
var measures = []struct {
	name string
	of   func(*stats) float64
}{
	{"pending", func(s *stats) float64 { return float64(s.Pending) }},
	{"in-flight", func(s *stats) float64 { return float64(s.InFlight) }},
	{"unknown", func(s *stats) float64 { return float64(s.Unknown) }},
	{"cancelled", func(s *stats) float64 { return float64(s.Cancelled) }},
	{"undelivered", func(s *stats) float64 { return float64(s.Undelivered) }},
	{"set-aside", func(s *stats) float64 { return float64(s.Flows.SetAside) }},
	{"restored", func(s *stats) float64 {
		if s.Restored {
			return 1
		}
		return 0
	}},
	{"wal-bytes", func(s *stats) float64 { return float64(s.WALBytes) }},
	{"pending-age", func(s *stats) float64 { return s.age(s.OldestPending) }},
	{"unknown-age", func(s *stats) float64 { return s.age(s.OldestUnknown) }},
	{"undelivered-age", func(s *stats) float64 { return s.age(s.OldestUndelivered) }},
	{"due", func(s *stats) float64 { return float64(s.Due) }},
	{"needs-attention", func(s *stats) float64 { return float64(s.NeedsAttention) }},
	{"receipts", func(s *stats) float64 { return float64(s.Receipts.all()) }},
	{"receipts-reserved", func(s *stats) float64 { return float64(s.receipts().Reserved) }},
	{"receipts-reserved-age", func(s *stats) float64 { return s.age(s.receipts().OldestReserved) }},
}

func measureNames() string {
	names := make([]string, len(measures))
	for i, m := range measures {
		names[i] = m.name
	}
	return strings.Join(names, ", ")
}

// age returns the seconds since a time, or 0 for never.
func (s *stats) age(since *time.Time) float64 {
	if since == nil {
		return 0
	}
	return s.At.Sub(*since).Seconds()
}

// condition is one --fail-if condition.
type condition struct {
	text string
	of   func(*stats) float64
	over float64 // in seconds, for ages
}

func parsedConditions(texts []string) (out []condition, err error) {
	for _, t := range texts {
		name, bound, found := strings.Cut(t, ">")
		one, name, bound := condition{text: t}, strings.TrimSpace(name), strings.TrimSpace(bound)
		for _, m := range measures {
			if m.name == name {
				one.of = m.of
			}
		}
		if !found || one.of == nil {
			return nil, usage("--fail-if %s: it is one of %s, then > and a bound", shown.Text(t), measureNames())
		}
		if strings.HasSuffix(name, "-age") {
			d, err := time.ParseDuration(bound)
			if err != nil {
				return nil, usage("--fail-if %s: an age is compared with a duration such as 90m", shown.Text(t))
			}
			one.over = d.Seconds()
		} else if one.over, err = strconv.ParseFloat(bound, 64); err != nil {
			return nil, usage("--fail-if %s: a count is compared with a number", shown.Text(t))
		}
		out = append(out, one)
	}
	return out, nil
}

func (k *condition) holds(s *stats) bool { return k.of(s) > k.over }
