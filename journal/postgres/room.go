package postgres

import (
	"encoding/binary"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgtype"
)

// A batch is some hundred kilobytes, and the driver begins each in a buffer of one. A buffer of the batch's size
// spares copies, and half of the memory that an operation allocated.

// makeRoom grows the connection's buffers for a batch. It is called before the batch's first statement is sent.
func makeRoom(conn *pgx.Conn, statements []part) {
	all, most := 0, 0
	for _, p := range statements {
		size := 0
		for _, w := range p.writes {
			size += w.size()
		}
		all, most = all+size, max(most, size)
	}
	conn.PgConn().Frontend().Send(room(all))
	if t, ok := conn.TypeMap().TypeForOID(pgtype.ByteaArrayOID); ok {
		if c, ok := t.Codec.(*bytesCodec); ok {
			c.room = most
		}
	}
}

// size is about as many bytes as the arguments of the write are sent as.
func (w *write) size() int {
	const others = 16*8 + 64 // their lengths, the numbers, and the digests
	s := &w.stored
	return others + len(w.op.Scope) + len(w.op.Parent) + len(w.op.ID) + len(w.op.Provider) + len(w.op.Holder) +
		len(s.facts) + len(s.request) + len(s.requestBody) + len(s.answer) + len(s.answerBody)
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
