package store

import (
	"iter"

	"github.com/onceward/onceward/journal"
)

// firstPage is the size of a list's first page. Many readers need no more.
const firstPage = 16

// InPages yields the operations that read returns, page by page, within the filter's limit. Each read asks for as many
// operations as the list can use. The first page is small, and the later ones have at most pageSize. read reports
// whether that was the last page. InPages ends after an error.
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
