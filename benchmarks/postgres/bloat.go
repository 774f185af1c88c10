package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// bloatCallers is how many callers there are while the server's tables and indices are watched.
const bloatCallers = 64

// shortLived is our journal with operations that may be reaped at once.
type shortLived struct {
	*oncewardStore
}

// openShortLived opens the journal and has it make connections and prepare statements. The caller closes it.
func openShortLived(ctx context.Context, d *database, o options) (s shortLived, err error) {
	if s.oncewardStore, err = openJournal(ctx, d.through); err != nil {
		return s, err
	}
	if _, _, err := s.some(ctx, d, o.runs/10); err != nil {
		return s, errors.Join(err, s.close())
	}
	return s, nil
}

func (s shortLived) operation(ctx context.Context) error {
	ev := s.beginning(newKey())
	ev.Intent.Terms = journal.Terms{}
	begun, err := s.journal.Apply(ctx, ev)
	if err != nil {
		return err
	}
	return s.complete(ctx, begun)
}

// some has callers do operations for so long.
func (s shortLived) some(ctx context.Context, d *database, runs time.Duration) (f figures, n int, err error) {
	before, err := d.used(ctx)
	if err != nil {
		return f, 0, err
	}
	r, err := load(ctx, s, bloatCallers, runs)
	if err != nil {
		return f, 0, err
	}
	after, err := d.used(ctx)
	if err != nil {
		return f, 0, err
	}
	f, err = figuresOf([]report{r}, used{cpu: after.cpu - before.cpu, wal: after.wal - before.wal})
	return f, len(r.Times), err
}

// turnovers measures our journal while all that is in it is reaped and as much comes in again, so often. After each
// turnover the tables are vacuumed, which autovacuum does by itself within a minute.
func turnovers(ctx context.Context, d *database, o options, out io.Writer) error {
	s, err := openShortLived(ctx, d, o)
	if err != nil {
		return err
	}
	defer s.close()
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "turnover\toperations\tops/s\tp99\tdatabase CPU/op\tWAL/op\ttables\tindices\ta Get by key\treaped a second\ttables, reaped\tindices, reaped\t")
	for turn := range o.turnovers + 1 {
		var all []figures
		for done := 0; done < o.rows; {
			fmt.Fprintf(os.Stderr, "\r\x1b[Kturnover %d: %d of %d operations", turn, done, o.rows)
			f, n, err := s.some(ctx, d, o.runs)
			if err != nil {
				return err
			}
			all, done = append(all, f), done+n
		}
		f := medians(all)
		full, err := d.size(ctx)
		if err != nil {
			return err
		}
		asked, err := s.lookUp(ctx)
		if err != nil {
			return err
		}
		began := time.Now()
		reaped, err := s.journal.Reap(ctx, machine.Event{Kind: machine.EventReap, At: s.journal.Now()}, 2*int(full.rows)+1)
		if err != nil {
			return err
		}
		rate := float64(reaped) / time.Since(began).Seconds()
		if err := execute(ctx, d.direct, "VACUUM ANALYZE"); err != nil {
			return err
		}
		left, err := d.size(ctx)
		if err != nil {
			return err
		}
		if left.rows > 0 {
			return fmt.Errorf("%d operations were reaped, and %d are left", reaped, left.rows)
		}
		fmt.Fprintf(w, "%d\t%d\t%.0f\t%v\t%v\t%.2f KB\t%s\t%s\t%v\t%.0f\t%s\t%s\t\n", turn, reaped, f.OpsPerSecond, f.P99.Round(100*time.Microsecond),
			f.DatabaseCPU.Round(time.Microsecond), f.WAL/1e3, megabytes(full.tables), megabytes(full.indices), asked.Round(10*time.Microsecond), rate,
			megabytes(left.tables), megabytes(left.indices))
	}
	fmt.Fprint(os.Stderr, "\r\x1b[K")
	return w.Flush()
}

// lookUp returns the median time of a Get by an operation's generated key.
func (s shortLived) lookUp(ctx context.Context) (time.Duration, error) {
	var times []time.Duration
	for op, err := range s.journal.List(ctx, journal.Filter{}) {
		if err != nil {
			return 0, err
		}
		began := time.Now()
		if _, err := s.journal.Get(ctx, op.Ref); err != nil {
			return 0, err
		}
		if times = append(times, time.Since(began)); len(times) == 200 {
			break
		}
	}
	slices.Sort(times)
	return percentile(times, 50), nil
}

// size is the space of the journal's tables and indices, in bytes, and the number of its operations.
type size struct{ rows, tables, indices int64 }

func (d *database) size(ctx context.Context) (z size, err error) {
	err = d.conn.QueryRow(ctx, `SELECT (SELECT count(*) FROM onceward.operations), sum(pg_table_size(oid))::bigint, sum(pg_indexes_size(oid))::bigint
		FROM pg_class WHERE relnamespace = 'onceward'::regnamespace AND relkind = 'r'`).Scan(&z.rows, &z.tables, &z.indices)
	return z, err
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

// beneathSnapshot measures our journal while a snapshot is held, as a forgotten transaction does. The server then
// keeps each version of a row that has been written since.
func beneathSnapshot(ctx context.Context, d *database, o options, out io.Writer) (err error) {
	s, err := openShortLived(ctx, d, o)
	if err != nil {
		return err
	}
	defer s.close()
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "snapshot held for\tops/s\tp50\tp99\tdatabase CPU/op\tWAL/op\ta claim of none\tclaims/s of 1,000 due\ttables\tindices\t")
	line := func(what string) error {
		f, _, err := s.some(ctx, d, o.runs)
		if err != nil {
			return err
		}
		none, rate, err := s.claims(ctx)
		if err != nil {
			return err
		}
		z, err := d.size(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s\t%.0f\t%v\t%v\t%v\t%.2f KB\t%v\t%.0f\t%s\t%s\t\n", what, f.OpsPerSecond, f.P50.Round(100*time.Microsecond), f.P99.Round(100*time.Microsecond),
			f.DatabaseCPU.Round(time.Microsecond), f.WAL/1e3, none.Round(10*time.Microsecond), rate, megabytes(z.tables), megabytes(z.indices))
		return nil
	}
	if err := line("none is"); err != nil {
		return err
	}
	holder, err := pgx.Connect(ctx, d.direct)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, holder.Close(context.WithoutCancel(ctx))) }()
	if _, err := holder.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1"); err != nil {
		return err
	}
	began := time.Now()
	for part := range 5 {
		for time.Since(began) < time.Duration(part+1)*o.snapshot/5-o.runs-o.rest {
			fmt.Fprintf(os.Stderr, "\r\x1b[Ka snapshot is held for %v", time.Since(began).Round(time.Second))
			if _, _, err := s.some(ctx, d, o.runs); err != nil {
				return err
			}
			select {
			case <-time.After(o.rest):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := line(time.Since(began).Round(time.Second).String()); err != nil {
			return err
		}
	}
	if _, err := holder.Exec(ctx, "COMMIT"); err != nil {
		return err
	}
	if err := execute(ctx, d.direct, "VACUUM"); err != nil {
		return err
	}
	if err := line("none, vacuumed"); err != nil {
		return err
	}
	fmt.Fprint(os.Stderr, "\r\x1b[K")
	return w.Flush()
}

// claims is what it takes to claim where nothing is due, the median, and how many of 1,000 that are due are claimed a
// second.
func (s shortLived) claims(ctx context.Context) (none time.Duration, rate float64, err error) {
	var times []time.Duration
	for range 21 {
		began := time.Now()
		if got, err := s.claimAll(ctx); err != nil || len(got) > 0 {
			return 0, 0, errors.Join(err, fmt.Errorf("%d were claimed, and none was due", len(got)))
		}
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	const due = 1000
	if err := fillDue(ctx, s.oncewardStore, due); err != nil {
		return 0, 0, err
	}
	began := time.Now()
	got, err := s.claimAll(ctx)
	if err == nil && len(got) != due {
		err = fmt.Errorf("%d were due, and %d were claimed", due, len(got))
	}
	return percentile(times, 50), due / time.Since(began).Seconds(), err
}
