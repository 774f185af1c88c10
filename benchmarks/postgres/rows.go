package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
)

// rowsAtOnce is how many rows one statement makes.
const rowsAtOnce = 100_000

// beside measures our journal with few operations in it and with many completed ones, in one server's two schemas. It
// measures them in turn, so the machine's other load falls on both.
func beside(ctx context.Context, d *database, o options, out io.Writer) error {
	full := *d
	if err := full.fill(ctx, o.rows); err != nil {
		return err
	}
	empty := d
	var withRows, without []figures
	for range o.repetitions {
		f, err := measure(ctx, empty, nameOnceward, o.callers[0], 1, o.runs)
		if err != nil {
			return err
		}
		without = append(without, f)
		if f, err = measure(ctx, &full, nameOnceward, o.callers[0], 1, o.runs); err != nil {
			return err
		}
		withRows = append(withRows, f)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "rows\tcallers\tops/s\tp99\tdatabase CPU/op\tWAL/op\tops/s ÷ empty\t")
	base := medians(without)
	for _, line := range []struct {
		rows int
		f    figures
	}{{0, base}, {o.rows, medians(withRows)}} {
		fmt.Fprintf(w, "%d\t%d\t%.0f\t%v\t%v\t%.2f KB\t%.2f\t\n", line.rows, o.callers[0], line.f.OpsPerSecond, line.f.P99, line.f.DatabaseCPU, line.f.WAL/1e3,
			line.f.OpsPerSecond/base.OpsPerSecond)
	}
	return w.Flush()
}

// fill has d be a separate database in the same server, with so many completed operations, which are copies of one.
func (d *database) fill(ctx context.Context, rows int) (err error) {
	if d.direct, d.through, err = d.another(ctx, "full"); err != nil {
		return err
	}
	if err := prepareOnceward(ctx, d.direct); err != nil {
		return err
	}
	s, err := openJournal(ctx, d.direct)
	if err != nil {
		return err
	}
	err = s.operation(ctx)
	if closing := s.close(); err == nil {
		err = closing
	}
	if err != nil {
		return err
	}
	for done := 1; done < rows; done += rowsAtOnce {
		fmt.Fprintf(os.Stderr, "\r\x1b[K%d of %d rows", done, rows)
		if err := execute(ctx, d.direct, fmt.Sprintf(`
			CREATE TEMP TABLE new AS SELECT nextval('onceward.handles') AS handle FROM generate_series(1, %d);
			INSERT INTO onceward.names (digest, handle) SELECT decode(md5(gen_random_uuid()::text), 'hex'), handle FROM new;
			INSERT INTO onceward.operations (handle, state, holder, wake_at, settled_at, delivered, tombstone, provider, facts)
				SELECT n.handle, state, holder, wake_at, settled_at, delivered, tombstone, provider, facts FROM new n, (SELECT * FROM onceward.operations ORDER BY handle LIMIT 1) o;
			INSERT INTO onceward.requests (handle, head, body) SELECT n.handle, head, body FROM new n, (SELECT * FROM onceward.requests ORDER BY handle LIMIT 1) o;
			INSERT INTO onceward.answers (handle, head, body) SELECT n.handle, head, body FROM new n, (SELECT * FROM onceward.answers ORDER BY handle LIMIT 1) o;`,
			min(rowsAtOnce, rows-done))); err != nil {
			return err
		}
	}
	fmt.Fprint(os.Stderr, "\r\x1b[K")
	return execute(ctx, d.direct, "VACUUM ANALYZE")
}
