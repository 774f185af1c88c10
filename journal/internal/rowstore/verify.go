package rowstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
)

const (
	// maxViolations is how many Verify returns at most.
	maxViolations = 1000
	// verifyPage is how many rows Verify reads at one moment.
	verifyPage = 256
	// verifyWhole is the number of operations that Verify reads with their bodies.
	verifyWhole = 32
)

// Verify reads everything in pages, each as of one moment. Verify returns violations of the state machine, rows that
// differ from the written ones, and rows that another row contradicts or lacks. Verify returns an error if it could
// not read to the end.
func (s *Store) Verify(ctx context.Context) ([]journal.Violation, error) {
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	ctx, done := until(ctx, s.life)
	defer done()
	v := &verification{ctx: ctx, s: s}
	if err := s.source.Check(ctx, v.add); err != nil {
		return nil, err
	}
	for _, of := range []func(Reader) (more bool, err error){v.operations, v.names, v.marks, v.flows, v.receipts, v.bookmarks} {
		v.after, v.name, v.mark, v.bookmark = 0, []byte{}, Mark{Mark: math.MinInt64}, ""
		for more := true; more; {
			if err := s.open(ctx); err != nil {
				return nil, err
			}
			err := s.source.Snapshot(ctx, v.page(of, &more))
			if errors.Is(err, format.ErrDamaged) {
				v.add(journal.Violation{Invariant: "it can be read: " + err.Error()})
				more = false
			} else if err != nil {
				return nil, err
			}
		}
	}
	return v.found, nil
}

// verification is one Verify run.
type verification struct {
	ctx   context.Context
	s     *Store
	found []journal.Violation

	head  Head // at the page's moment
	leaps leaps
	after int64 // what was read last, by kind
	name  []byte
	mark  Mark

	bookmark string
}

// page reads a page from one kind. If page reads again, earlier findings do not count.
func (v *verification) page(of func(Reader) (bool, error), more *bool) func(Reader) error {
	was := *v
	return func(r Reader) (err error) {
		*v = was
		if v.head, err = r.Head(v.ctx); err != nil {
			return err
		}
		if v.leaps, err = decodeLeaps(v.head.Leaps); err != nil {
			return err
		}
		*more, err = of(r)
		return err
	}
}

func (v *verification) add(found journal.Violation) {
	if len(v.found) < maxViolations {
		v.found = append(v.found, found)
	}
}

func (v *verification) operation(op *journal.Operation, holds bool, invariant string) {
	if !holds {
		v.add(journal.Violation{Handle: op.Handle, Ref: op.Ref, Invariant: invariant})
	}
}

// operations checks a page of operations, their names and their marks.
func (v *verification) operations(r Reader) (more bool, err error) {
	places, err := r.Scan(v.ctx, Scan{Index: ByHandle, After: Position{Handle: v.after}, Limit: verifyWhole})
	if err != nil || len(places) == 0 {
		return false, err
	}
	v.after = places[len(places)-1].Handle
	rows, err := load(v.ctx, r, places, Keys{Whole: true})
	if err != nil {
		return false, err
	}
	var items []*item
	keys := Keys{Heads: true}
	for _, at := range places {
		if it := v.row(at.Handle, rows[at.Handle]); it != nil {
			items = append(items, it)
			keys.Names, keys.Marks = append(keys.Names, it.names(&v.s.key)...), append(keys.Marks, it.marks(&v.s.key)...)
		}
	}
	found, err := r.Find(v.ctx, keys)
	for _, it := range items {
		for _, name := range it.names(&v.s.key) {
			v.operation(&it.op, found.Names[name] == it.op.Handle, "its name finds it")
		}
		for _, mark := range it.marks(&v.s.key) {
			v.operation(&it.op, slices.Contains(found.Marks[mark], it.op.Handle), "its marks find it")
		}
	}
	return len(places) == verifyWhole, err
}

// row checks a single operation, and returns nil for an unreadable one.
func (v *verification) row(handle int64, row *Row) *item {
	unreadable := journal.Violation{Handle: handle, Invariant: "it can be read"}
	if row == nil {
		v.add(unreadable)
		return nil
	}
	it, err := decodeRecord(v.s.codec, row)
	if err != nil {
		v.add(unreadable)
		return nil
	}
	v.operation(&it.op, it.isIn(row), "its row is as it was written")
	if it.fill(row) != nil {
		v.operation(&it.op, false, "its request and its answer are those that its row was written with")
		return it
	}
	op, err := v.leaps.told(it).operation(v.s.codec, true) // whole, so that the bodies are readable
	if err != nil {
		v.operation(&it.op, false, "its request and its answer can be read")
		return it
	}
	if op.SealedBy == "" { // the rules read what is sealed
		for _, broken := range machine.Violations(op, v.head.Clock.Last) {
			v.operation(&op, false, broken)
		}
	}
	least := v.head.Clock.LeastMargin
	v.operation(&op, op.Terms.Window() == 0 || least > 0 && least <= op.Terms.Margin(), "the least margin is known")
	return it
}

// read returns the readable rows' items, and the handles with a row.
func (v *verification) read(r Reader, handles []int64) (items map[int64]*item, there map[int64]bool, err error) {
	found, err := r.Find(v.ctx, Keys{Handles: handles})
	items, there = make(map[int64]*item, len(found.Rows)), make(map[int64]bool, len(found.Rows))
	for _, row := range found.Rows {
		there[row.Handle] = true
		if it, err := decodeRecord(v.s.codec, row); err == nil {
			items[row.Handle] = it
		}
	}
	return items, there, err
}

// names finds names without an operation, or with another one.
func (v *verification) names(r Reader) (more bool, err error) {
	page, err := r.Names(v.ctx, v.name, verifyPage)
	if err != nil || len(page) == 0 {
		return false, err
	}
	v.name = page[len(page)-1].Digest[:]
	handles := make([]int64, len(page))
	for i, n := range page {
		handles[i] = n.Handle
	}
	items, there, err := v.read(r, handles)
	for _, n := range page {
		if !there[n.Handle] {
			v.add(journal.Violation{Handle: n.Handle, Invariant: "its name is of an operation that is there"})
		} else if it := items[n.Handle]; it != nil && !slices.Contains(it.names(&v.s.key), n.Digest) {
			v.operation(&it.op, false, "its entries are of names that it has")
		}
	}
	return len(page) == verifyPage, err
}

// marks finds marks without an operation, or with another one.
func (v *verification) marks(r Reader) (more bool, err error) {
	page, err := r.Marks(v.ctx, v.mark, verifyPage)
	if err != nil || len(page) == 0 {
		return false, err
	}
	v.mark = page[len(page)-1]
	var handles []int64
	for _, m := range page {
		if m.Handle != 0 {
			handles = append(handles, m.Handle)
		}
	}
	items, there, err := v.read(r, handles)
	for _, m := range page {
		if it := items[m.Handle]; it != nil && !slices.Contains(it.marks(&v.s.key), m.Mark) || m.Handle != 0 && !there[m.Handle] {
			v.add(journal.Violation{Handle: m.Handle, Invariant: "its entries are of marks that it has"})
		}
	}
	return len(page) == verifyPage, err
}

// flows checks a page of flows and their steps.
func (v *verification) flows(r Reader) (more bool, err error) {
	rows, err := r.Flows(v.ctx, FlowScan{After: Position{Handle: v.after}, Limit: verifyPage})
	if err != nil {
		return false, err
	}
	for _, row := range rows {
		v.after = row.Handle
		if err := v.flow(r, row); err != nil {
			return false, err
		}
	}
	return len(rows) == verifyPage, nil
}

func (v *verification) flow(r Reader, row *Flow) error {
	must := func(holds bool, invariant string) {
		if !holds {
			v.add(journal.Violation{Handle: row.Handle, Flow: true, Ref: row.Ref, Invariant: invariant})
		}
	}
	f, err := decodeFlow(v.s.codec, row)
	if errors.Is(err, format.ErrSum) {
		must(false, "its rows are as they were written")
	} else if err != nil {
		v.add(journal.Violation{Handle: row.Handle, Flow: true, Invariant: "it can be read"})
		return nil
	}
	named, err := r.Flow(v.ctx, 0, NameDigest(&v.s.key, row.Ref), NoLock)
	if err != nil {
		return err
	}
	must(named != nil && named.Handle == row.Handle, "its name finds it")
	if f.Steps, err = v.s.stepsOf(v.ctx, r, &f); errors.Is(err, format.ErrDamaged) {
		must(false, "its rows are as they were written")
		return nil
	}
	if err != nil {
		return err
	}
	if f.SealedBy == "" {
		for _, broken := range machine.FlowViolations(f) {
			must(false, broken)
		}
	}
	return nil
}

// receipts looks at a page of receipts.
func (v *verification) receipts(r Reader) (more bool, err error) {
	rows, err := r.Receipts(v.ctx, ReceiptScan{After: Position{Handle: v.after}, Limit: verifyPage})
	if err != nil {
		return false, err
	}
	for _, row := range rows {
		v.after = row.Handle
		must := func(holds bool, invariant string) {
			if !holds {
				v.add(journal.Violation{Handle: row.Handle, Receipt: true, Invariant: invariant})
			}
		}
		found, err := r.Receipt(v.ctx, row.Key)
		if err != nil {
			return false, err
		}
		if found.Receipt == nil || found.Receipt.Handle != row.Handle {
			must(false, "its key finds it")
			continue
		}
		is, err := decodeReceipt(v.s.codec, found.Receipt)
		if err != nil {
			must(false, "it is as it was written")
			continue
		}
		if is.SealedBy == "" {
			for _, broken := range machine.ReceiptViolations(is) {
				must(false, broken)
			}
		}
	}
	return len(rows) == verifyPage, nil
}

// bookmarks looks at a page of bookmarks.
func (v *verification) bookmarks(r Reader) (more bool, err error) {
	rows, err := r.Bookmarks(v.ctx, v.bookmark, bookmarkPage)
	if err != nil {
		return false, err
	}
	for _, row := range rows {
		v.bookmark = row.Name
		if _, err := decodeBookmark(row); err != nil {
			v.add(journal.Violation{Invariant: fmt.Sprintf("the bookmark %q is as it was written", row.Name)})
		}
	}
	return len(rows) == bookmarkPage, nil
}
