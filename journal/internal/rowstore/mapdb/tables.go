package mapdb

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore"
)

// tables are rows by their keys. A database has the committed ones, and a transaction the changed ones. A row never changes,
// since another one replaces it. Nil stands for a row that a transaction has removed.
type tables struct {
	rows      map[int64]*rowstore.Row
	receipts  map[journal.ReceiptKey]*rowstore.Receipt
	flows     map[int64]*flow
	bookmarks map[string]*rowstore.Bookmark
	numbers   map[any]*int64              // by event, when it was heard; by entity, its latest number
	index     map[any]map[int64]*struct{} // handles, by a name's digest or a mark
}

// flow is a flow with its steps.
type flow struct {
	rowstore.Flow
	steps []rowstore.Step
}

// Keys for numbers and for the index, and what else a transaction holds. A row is held by its handle, an int64.
type (
	event        string // a digest
	entity       struct{ source, name string }
	mark         int64
	flowHandle   int64
	flowName     rowstore.Digest
	bookmarkName string
)

// merge makes a transaction's changes.
func (t *tables) merge(changes *tables) {
	merge(&t.rows, changes.rows)
	merge(&t.receipts, changes.receipts)
	merge(&t.flows, changes.flows)
	merge(&t.bookmarks, changes.bookmarks)
	merge(&t.numbers, changes.numbers)
	for key, handles := range changes.index {
		is := maps.Clone(t.index[key])
		if merge(&is, handles); len(is) == 0 {
			delete(t.index, key)
		} else {
			set(&t.index, key, is)
		}
	}
}

// clone returns a copy.
func (t tables) clone() tables {
	return tables{maps.Clone(t.rows), maps.Clone(t.receipts), maps.Clone(t.flows), maps.Clone(t.bookmarks), maps.Clone(t.numbers), maps.Clone(t.index)}
}

func merge[K comparable, V any](into *map[K]*V, changes map[K]*V) {
	for key, row := range changes {
		if row == nil {
			delete(*into, key)
		} else {
			set(into, key, row)
		}
	}
}

func set[K comparable, V any](in *map[K]V, key K, row V) {
	if *in == nil {
		*in = make(map[K]V)
	}
	(*in)[key] = row
}

func get[K comparable, V any](changed, committed map[K]*V, key K) *V {
	if row, is := changed[key]; is {
		return row
	}
	return committed[key]
}

// all yields the rows as a transaction sees them.
func all[K comparable, V any](changed, committed map[K]*V) iter.Seq2[K, *V] {
	return func(yield func(K, *V) bool) {
		for key, row := range changed {
			if row != nil && !yield(key, row) {
				return
			}
		}
		for key, row := range committed {
			if _, is := changed[key]; !is && !yield(key, row) {
				return
			}
		}
	}
}

// placed is a row with its place in an index.
type placed[V any] struct {
	at  rowstore.Position
	row *V
}

// page returns the rows that have a place after one, in order.
func page[K comparable, V any](rows iter.Seq2[K, *V], place func(*V) (rowstore.Position, bool), after rowstore.Position, newest bool, limit int) (page []placed[V]) {
	for _, row := range rows {
		if at, is := place(row); is && compare(at, after) > 0 {
			page = append(page, placed[V]{at, row})
		}
	}
	slices.SortFunc(page, func(a, b placed[V]) int { return compare(a.at, b.at) })
	if newest {
		slices.Reverse(page)
	}
	return page[:min(len(page), limit)]
}

func compare(a, b rowstore.Position) int {
	return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Handle, b.Handle))
}
