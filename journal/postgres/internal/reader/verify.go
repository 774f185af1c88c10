package reader

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/postgres/internal/record"
)

// maxViolations is how many Verify names at most.
const maxViolations = 1000

// Verify reads the whole journal in pages, and returns its violations, at most 1,000. An error means that it could not
// read the whole journal.
func (read Reader) Verify(ctx context.Context, schema string) ([]journal.Violation, error) {
	v := &verification{read: read, ctx: ctx, schema: schema}
	for _, step := range []func() error{v.operations, v.flows, v.strays, v.receipts} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return v.found, nil
}

// verification is one run of Verify.
type verification struct {
	read   Reader
	ctx    context.Context
	schema string
	last   time.Time
	found  []journal.Violation
}

func (v *verification) add(found journal.Violation) {
	if len(v.found) < maxViolations {
		v.found = append(v.found, found)
	}
}

// clock reads the latest time that the journal has seen.
func (v *verification) clock() error {
	return v.read(v.ctx, func(row record.Scanner) error {
		var last int64
		err := row.Scan(&last)
		v.last = time.UnixMilli(last).UTC()
		return err
	}, "SELECT greatest((SELECT last_at FROM {{schema}}.journal), (SELECT max(last_at) FROM {{schema}}.lanes))")
}

// looked has an operation, and what its row and its marks say beside that.
type looked struct {
	op              journal.Operation
	identity, alias []byte
	marks           []int64
}

func (v *verification) operations() error {
	for after, n := int64(0), pageSize; n == pageSize; {
		n = 0
		var page []*looked
		err := v.read(v.ctx, func(from record.Scanner) error {
			n++
			l := new(looked)
			op, err := record.ScanOperation(record.WithLast(record.KeepFirst(from, &after), &l.identity, &l.alias, &l.marks))
			if err != nil {
				if !record.IsDamaged(err) {
					return err
				}
				v.add(journal.Violation{Handle: after, Invariant: "it is as it was written"})
				return nil
			}
			l.op = op
			page = append(page, l)
			return nil
		}, `SELECT `+record.Columns+`, r.body, a.head, a.body, o.identity, o.alias, ARRAY(SELECT hash FROM {{schema}}.marks WHERE handle = o.handle)
			FROM (SELECT * FROM {{schema}}.operations WHERE handle > $1 ORDER BY handle LIMIT $2) o`+record.Besides+"ORDER BY o.handle", after, pageSize)
		if err == nil {
			err = v.clock() // which is no earlier than what was read
		}
		if err != nil || len(v.found) == maxViolations {
			return err
		}
		for _, l := range page {
			v.operation(l)
		}
	}
	return nil
}

func (v *verification) operation(l *looked) {
	op := &l.op
	must := func(holds bool, invariant string) {
		if !holds {
			v.add(journal.Violation{Handle: op.Handle, Ref: op.Ref, Invariant: invariant})
		}
	}
	for _, broken := range journal.Violations(*op, v.last) {
		must(false, broken)
	}
	must(l.identity == nil || bytes.Equal(l.identity, record.Digest(op.Ref)), "its digest is that of its name")
	must(l.identity != nil || op.Naming == journal.Generated, "its name is unique")
	if op.Alias == (journal.Ref{}) {
		must(l.alias == nil, "it is found by no second name that it does not have")
	} else {
		must(bytes.Equal(l.alias, record.Digest(op.Alias)), "it is found by its second name")
	}
	var has []int64
	if record.Marked(op) {
		for _, m := range store.Marks(op) {
			must(slices.Contains(l.marks, record.MarkHash(m)), "its marks find it")
		}
		for _, m := range store.AllMarks(op) {
			has = append(has, record.MarkHash(m))
		}
	}
	for _, hash := range l.marks {
		must(slices.Contains(has, hash), "its index entries are of marks that it has")
	}
}

func (v *verification) flows() error {
	for after, n := int64(0), pageSize; n == pageSize; {
		n = 0
		var flows []journal.Flow
		err := v.read(v.ctx, func(from record.Scanner) error {
			n++
			f, err := record.ScanFlow(record.KeepFirst(from, &after))
			if record.IsDamaged(err) {
				v.add(journal.Violation{Handle: after, Flow: true, Invariant: "it is as it was written"})
				return nil
			}
			flows = append(flows, f)
			return err
		}, record.SelectFlow+" WHERE handle > $1 ORDER BY handle LIMIT $2", after, pageSize)
		if err != nil {
			return err
		}
		for i := range flows {
			f := &flows[i]
			if err := v.read.addSteps(v.ctx, flows[i:i+1]); record.IsDamaged(err) {
				v.add(journal.Violation{Handle: f.Handle, Flow: true, Ref: f.Ref, Invariant: "its steps are as they were written"})
				continue
			} else if err != nil {
				return err
			}
			for _, broken := range journal.FlowViolations(*f) {
				v.add(journal.Violation{Handle: f.Handle, Flow: true, Ref: f.Ref, Invariant: broken})
			}
		}
		if len(v.found) == maxViolations {
			return nil
		}
	}
	return nil
}

// strays are rows of operations and flows that there are not.
func (v *verification) strays() error {
	for _, s := range []struct {
		table, column, of string
		flow              bool
		where, invariant  string
	}{
		{table: "requests", column: "handle", of: "operations", invariant: "a request is that of an operation"},
		{table: "answers", column: "handle", of: "operations", invariant: "an answer is that of an operation"},
		{table: "marks", column: "handle", of: "operations", where: " AND s.handle <> 0", invariant: "a mark is that of an operation"},
		{table: "flow_steps", column: "flow", of: "flows", flow: true, invariant: "a step is that of a flow"},
	} {
		err := v.read(v.ctx, func(row record.Scanner) error {
			stray := journal.Violation{Flow: s.flow, Invariant: s.invariant}
			err := row.Scan(&stray.Handle)
			v.add(stray)
			return err
		}, fmt.Sprintf(`SELECT DISTINCT s.%[2]s FROM {{schema}}.%[1]s s WHERE NOT EXISTS (SELECT 1 FROM {{schema}}.%[3]s o WHERE o.handle = s.%[2]s)%[4]s LIMIT 1000`,
			s.table, s.column, s.of, s.where))
		if err != nil {
			return err
		}
	}
	return nil
}

// receipts reads every receipt as a whole, in pages.
func (v *verification) receipts() error {
	made, err := v.read.madeReceipts(v.ctx, v.schema)
	for after, n := int64(0), pageSize; err == nil && made && n == pageSize; {
		n = 0
		err = v.read(v.ctx, func(row record.Scanner) error {
			r, err := record.ScanWholeReceipt(row)
			n, after = n+1, r.Handle
			if record.IsDamaged(err) {
				v.add(journal.Violation{Handle: after, Receipt: true, Invariant: "it is as it was written"})
				return nil
			}
			for _, broken := range journal.ReceiptViolations(r.Receipt) {
				v.add(journal.Violation{Handle: after, Receipt: true, Invariant: broken})
			}
			return err
		}, record.WholeReceipt+"WHERE handle > $1 ORDER BY handle LIMIT $2", after, pageSize)
	}
	return err
}
