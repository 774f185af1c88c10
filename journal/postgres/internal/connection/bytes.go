package connection

import (
	"encoding/binary"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// bytesCodec is pgx's codec of bytea[], that writes [][]byte at once.
type bytesCodec struct{ *pgtype.ArrayCodec }

// registerBytes has the connection use a bytesCodec.
func registerBytes(conn *pgx.Conn) {
	conn.TypeMap().RegisterType(&pgtype.Type{Name: "_bytea", OID: pgtype.ByteaArrayOID, Codec: bytesCodec{
		&pgtype.ArrayCodec{ElementType: &pgtype.Type{Name: "bytea", OID: pgtype.ByteaOID, Codec: pgtype.ByteaCodec{}}},
	}})
}

// PlanEncode is pgtype.Codec's.
func (c bytesCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.([][]byte); ok && format == pgtype.BinaryFormatCode {
		return c
	}
	return c.ArrayCodec.PlanEncode(m, oid, format, value)
}

// Encode writes an array of one dimension as array_recv reads it (PostgreSQL's source, arrayfuncs.c). First come the
// number of dimensions, whether there are NULLs, the elements' type, their number and the first one's index. Each
// element follows with its length, -1 for NULL.
func (c bytesCodec) Encode(value any, buf []byte) ([]byte, error) {
	all := value.([][]byte)
	if all == nil {
		return nil, nil // NULL
	}
	size, null := 20, uint32(0)
	for _, b := range all {
		size += 4 + len(b)
		if b == nil {
			null = 1
		}
	}
	buf = slices.Grow(buf, size)
	if len(all) == 0 {
		return append(binary.BigEndian.AppendUint32(buf, 0), 0, 0, 0, 0, 0, 0, 0, pgtype.ByteaOID), nil
	}
	for _, n := range [...]uint32{1, null, pgtype.ByteaOID, uint32(len(all)), 1} {
		buf = binary.BigEndian.AppendUint32(buf, n)
	}
	for _, b := range all {
		if b == nil {
			buf = binary.BigEndian.AppendUint32(buf, 1<<32-1)
			continue
		}
		buf = append(binary.BigEndian.AppendUint32(buf, uint32(len(b))), b...)
	}
	return buf, nil
}
