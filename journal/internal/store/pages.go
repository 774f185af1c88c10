package store

import (
	"fmt"
	"iter"
	"math"
	"strings"

	"github.com/onceward/onceward/journal"
)

// firstPage is the size of the first page of a list. Many readers need no more.
const firstPage = 16

// InPages yields the operations that read returns, page by page, within the filter's limit. It asks read for as many
// operations as it can use. The first page is small, and the later ones have at most pageSize. read reports whether that
// was the last page. InPages ends after an error.
func InPages(filter journal.Filter, pageSize int, read func(size int) (ops []journal.Operation, last bool, err error)) iter.Seq2[journal.Operation, error] {
	return func(yield func(journal.Operation, error) bool) {
		left := filter.Limit
		for most := firstPage; ; most = min(4*most, pageSize) {
			size := most
			if filter.Limit > 0 {
				size = min(size, left)
			}
			ops, last, err := read(size)
			if err != nil {
				yield(journal.Operation{}, err)
				return
			}
			for _, op := range ops {
				if !yield(op, nil) {
					return
				}
				if left--; left == 0 {
					return
				}
			}
			if last {
				return
			}
		}
	}
}

// FlowsInPages yields the flows that the filter selects, page by page, without their inputs and their steps' results.
// read gets the part of its statement after FROM flows, and one argument for each ? in it. FlowsInPages ends after an
// error.
func FlowsInPages(filter journal.FlowFilter, pageSize int, read func(where string, args []any) ([]journal.Flow, error)) iter.Seq2[journal.Flow, error] {
	return func(yield func(journal.Flow, error) bool) {
		due, handle := int64(-1), int64(0) // one that is put off for long is due below 0
		if filter.Newest && !filter.ByDue {
			handle = math.MaxInt64
		}
		for left := filter.Limit; ; {
			size := pageSize
			if filter.Limit > 0 {
				size = min(size, left)
			}
			page, err := read(FlowPage(filter, due, handle, size))
			if err != nil {
				yield(journal.Flow{}, err)
				return
			}
			for _, f := range page {
				due, handle = f.DueAt.UnixMilli(), f.Handle
				f.Input = nil
				for i := range f.Steps {
					f.Steps[i].Result = nil
				}
				if !yield(f, nil) {
					return
				}
			}
			left -= len(page)
			if len(page) < size || left == 0 {
				return
			}
		}
	}
}

// FlowPage selects at most size flows after the one that was due then and has that handle.
func FlowPage(f journal.FlowFilter, due, handle int64, size int) (where string, args []any) {
	var all []string
	if len(f.States) > 0 {
		var either []string
		for _, state := range f.States { // as numbers in the text: an index of some states alone is found by no parameter
			either = append(either, fmt.Sprintf("state = %d", state))
		}
		all = append(all, "("+strings.Join(either, " OR ")+")")
	}
	if f.Scope != nil {
		all, args = append(all, "scope = ?"), append(args, *f.Scope)
	}
	if len(f.Functions) > 0 {
		var either []string
		for _, function := range f.Functions {
			either = append(either, "function = ? AND version = ?")
			args = append(args, function.Name, function.Version)
		}
		all = append(all, "("+strings.Join(either, " OR ")+")")
	}
	if f.ID != "" {
		all, args = append(all, "id = ?"), append(args, f.ID)
	}
	order := "handle"
	if f.ByDue {
		all, args = append(all, "state = 2", "(due_at, handle) > (?, ?)"), append(args, due, handle)
		order = "due_at, handle"
	} else if f.Newest {
		all, args = append(all, "handle < ?"), append(args, handle)
		order = "handle DESC"
	} else {
		all, args = append(all, "handle > ?"), append(args, handle)
	}
	return " WHERE " + strings.Join(all, " AND ") + " ORDER BY " + order + " LIMIT ?", append(args, int64(size))
}
