package reader

import (
	"context"
	"encoding/binary"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/postgres/internal/record"
)

// FindBySQL selects the operations that may have a value: by their marks, or in flight, when they may have none, by
// their keys. It scans all that are in flight, by the index of holders. An index of their keys would cost each
// operation more than it saves, as they are no more than are sent at a time. It looks each one up by its handle, so
// that no plan walks through the whole table.
const FindBySQL = `SELECT ` + record.Columns + `, a.head FROM (
		SELECT handle FROM {{schema}}.marks WHERE hash = $1
		UNION SELECT handle FROM {{schema}}.operations WHERE $2 AND holder IS NOT NULL AND state = 2 AND provider = $3 AND (` + ownKey + ` = $4::bytea OR id = $5)
	) found CROSS JOIN LATERAL (SELECT * FROM {{schema}}.operations WHERE handle = found.handle OFFSET 0) o` + record.Besides + `ORDER BY o.handle`

// ownKey is the part of the facts behind the first three bytes. If an operation's key is not its ID, that part begins
// with the key, with its length before it (see format.EncodeFacts).
const ownKey = `substr(facts, 4, length($4::bytea))`

// LengthAndKey returns a key as ownKey has it.
func LengthAndKey(key string) []byte {
	return append(binary.AppendUvarint(nil, uint64(len(key))), key...)
}

// FindBy returns the operations of the provider that have the value, in the order of their creation.
func (read Reader) FindBy(ctx context.Context, provider string, by journal.By, value string) (matches []journal.Match, err error) {
	if value == "" {
		return nil, nil
	}
	err = read(ctx, func(from record.Scanner) error {
		var head []byte
		r, err := record.Scan(from, &head)
		if err != nil {
			return err
		}
		if _, is := r.Op.RoundBy(by, value); !is || r.Op.Provider != provider {
			return nil
		}
		op, err := record.WithoutBodies(r, head)
		matches = append(matches, store.Match(op, by, value))
		return err
	}, FindBySQL, record.Sought(by, value), by == journal.ByKey, []byte(provider), LengthAndKey(value), []byte(value))
	if err != nil {
		return nil, err
	}
	return matches, nil
}
