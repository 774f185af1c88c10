package connection

import (
	"encoding/binary"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgtype"
)

// A batch is some hundred kilobytes, and the driver begins each in a buffer of one. A buffer of the batch's size
// spares copies, and half of the memory that an operation allocated.

// MakeRoom grows the connection's buffers for the messages that follow: for all bytes of them, and for the most that
// one statement's arrays of bytes take. It is called before the first statement is sent.
func MakeRoom(conn *pgx.Conn, all, most int) {
	conn.PgConn().Frontend().Send(room(all))
	if t, ok := conn.TypeMap().TypeForOID(pgtype.ByteaArrayOID); ok {
		if c, ok := t.Codec.(*bytesCodec); ok {
			c.room = most
		}
	}
}

// room is a message of no bytes. It makes room for so many bytes in the buffer of the messages that follow.
type room int

func (room) Frontend() {}

func (room) Decode([]byte) error { return nil }

func (r room) Encode(dst []byte) ([]byte, error) { return slices.Grow(dst, int(r)), nil }

var _ pgproto3.FrontendMessage = room(0)

// bytesCodec is pgx's codec of bytea[], that writes [][]byte at once. It belongs to one connection.
type bytesCodec struct {
	*pgtype.ArrayCodec
	room int // for how much there is to be room, where a buffer has to grow
}

// registerBytes has the connection use a bytesCodec.
func registerBytes(conn *pgx.Conn) {
	conn.TypeMap().RegisterType(&pgtype.Type{Name: "_bytea", OID: pgtype.ByteaArrayOID, Codec: &bytesCodec{
		ArrayCodec: &pgtype.ArrayCodec{ElementType: &pgtype.Type{Name: "bytea", OID: pgtype.ByteaOID, Codec: pgtype.ByteaCodec{}}},
	}})
}

// PlanEncode is pgtype.Codec's.
func (c *bytesCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.([][]byte); ok && format == pgtype.BinaryFormatCode {
		return c
	}
	return c.ArrayCodec.PlanEncode(m, oid, format, value)
}

// Encode writes an array of one dimension as array_recv reads it (PostgreSQL's source, arrayfuncs.c). First come the
// number of dimensions, whether there are NULLs, the elements' type, their number and the first one's index. Each
// element follows with its length, -1 for NULL.
func (c *bytesCodec) Encode(value any, buf []byte) ([]byte, error) {
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
	if cap(buf)-len(buf) < size {
		buf = slices.Grow(buf, max(size, c.room))
	}
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
