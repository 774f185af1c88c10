package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore/rowstoretest"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
	"github.com/onceward/onceward/seal"
)

// A journal is sealed under a running process, which then decides nothing. No column shows a payload, and no program
// without the key opens the journal to send.
func TestASealedJournal(t *testing.T) {
	t.Parallel()
	const planted = "planted-word"
	server := postgrestest.Shared(t)
	opts := options(t, server)
	clear := open(t, server, opts)
	before := join(t, clear)
	sent, err := clear.Apply(t.Context(), begin("sent before", before))
	require.NoError(t, err)

	sealing := opts
	sealing.Seal = rowstoretest.Ring(t, "k1").ReadClear()
	j := open(t, server, sealing)
	s := join(t, j)
	secret := begin("named", s)
	secret.Intent.Fingerprint, secret.Intent.Request.URL, secret.Intent.Request.Body = planted, "https://"+planted, []byte(planted)
	begun, err := j.Apply(t.Context(), secret)
	require.NoError(t, err)
	done := complete(begun.Operation, s)
	done.Answer.Body = []byte(planted)
	_, err = j.Apply(t.Context(), done)
	require.NoError(t, err)
	tx, err := j.BeginTx(t.Context())
	require.NoError(t, err)
	reserved := receive(t, j, tx, reserve("inbound"))
	paid := answeredBy(reserved.Receipt)
	paid.Answer.Body = []byte(planted)
	decides(t, j, tx, paid, machine.Recorded)
	require.NoError(t, tx.Commit(t.Context()))
	stands(t, j, "inbound", machine.Replay)

	_, err = clear.Apply(t.Context(), begin("named", before))
	require.ErrorIs(t, err, journal.ErrSealed)
	assert.ErrorContains(t, err, `"k1"`)
	_, err = clear.Claim(t.Context(), machine.Event{Kind: machine.EventClaim, At: clear.Now(), Session: before.ID()}, 1)
	require.ErrorIs(t, err, journal.ErrSealed)
	_, err = clear.LookReceipt(t.Context(), reserve("inbound"))
	require.ErrorIs(t, err, journal.ErrSealed)
	_, err = clear.Apply(t.Context(), complete(sent.Operation, before))
	require.NoError(t, err, "a late answer")
	op, err := j.Get(t.Context(), journal.Ref{ID: "sent before"})
	require.NoError(t, err)
	assert.Equal(t, "paid sent before", string(op.Answer.Body))

	for _, lacks := range []*seal.Ring{nil, rowstoretest.Ring(t, "k2")} {
		opts.Seal = lacks
		_, err := postgres.Open(t.Context(), server.URL(), opts)
		require.ErrorIs(t, err, journal.ErrSealed)
		assert.ErrorContains(t, err, `"k1"`)
	}
	opts.Seal, opts.ReadOnly = nil, true
	reads := open(t, server, opts)
	for op, err := range reads.List(t.Context(), journal.Filter{}) {
		require.NoError(t, err)
		assert.Equal(t, op.ID == "named", op.SealedBy == "k1", op.ID)
	}
	found, err := reads.Verify(t.Context())
	require.NoError(t, err)
	assert.Empty(t, found)
	status, err := reads.SealStatus(t.Context())
	require.NoError(t, err)
	// An operation, its request and its answer, in clear and sealed; a receipt and its answer.
	assert.Equal(t, journal.SealStatus{Keys: []string{"k1"}, Boxes: map[string]int64{"k1": 5}, Clear: 3}, status)

	conn, err := pgx.Connect(t.Context(), server.URL())
	require.NoError(t, err)
	defer conn.Close(t.Context())
	var words, writer int
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FILTER (WHERE strpos(x::text, encode($1, 'hex')) > 0 OR strpos(x::text, convert_from($1, 'UTF8')) > 0) FROM ("+
		"SELECT o::text AS x FROM "+opts.Schema+".operations o UNION ALL SELECT q::text FROM "+opts.Schema+".requests q UNION ALL SELECT a::text FROM "+opts.Schema+".answers a "+
		"UNION ALL SELECT r::text FROM "+opts.Schema+".receipts r) rows", []byte(planted)).Scan(&words))
	assert.Zero(t, words)
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT least_writer FROM "+opts.Schema+".journal").Scan(&writer))
	assert.Equal(t, 4, writer, "releases without seals may not write")
}
