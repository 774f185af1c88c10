package postgres_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore/rowstoretest"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
	"github.com/onceward/onceward/seal"
)

// No byte of the tables, their indexes and the WAL shows a payload. Names are in clear. A program without the key reads all
// but the payloads.
func TestPlantedWordsAreNotOnTheServer(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	conn := server.Conn(t)
	for planted, ring := range map[string]*seal.Ring{"planted-word-sealed": rowstoretest.Ring(t, "k1"), "planted-word-in-clear": nil} {
		opts := options(t, server)
		opts.Seal = ring
		var since string
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT pg_walfile_name(pg_current_wal_lsn())").Scan(&since))
		j := open(t, server, opts)
		rowstoretest.Plant(t, j, planted)
		rowstoretest.RequirePlanted(t, j, planted)

		words, names := 0, 0
		for _, file := range serverFiles(t, conn, opts.Schema, since) {
			content, err := os.ReadFile(file)
			if os.IsNotExist(err) { // a segment of the WAL that was removed meanwhile
				continue
			}
			require.NoError(t, err)
			found := bytes.Count(content, []byte(planted))
			words += found
			names += bytes.Count(content, []byte(rowstoretest.PlantedName))
			if ring != nil {
				assert.Zero(t, found, file)
			}
		}
		if soak.On() {
			words += dumped(t, server, opts.Schema, planted)
		}
		assert.NotZero(t, names)
		assert.Equal(t, ring == nil, words > 0, "the test plants words")
		if ring == nil {
			continue
		}
		opts.Seal, opts.ReadOnly = nil, true
		reads := open(t, server, opts)
		rowstoretest.RequireSealed(t, reads, "k1", planted)
		status, err := reads.SealStatus(t.Context())
		require.NoError(t, err)
		assert.Equal(t, journal.SealStatus{Keys: []string{"k1"}, Boxes: map[string]int64{"k1": rowstoretest.PlantedBoxes}}, status)
		found, err := reads.Verify(t.Context())
		require.NoError(t, err)
		assert.Empty(t, found)
	}
}

// serverFiles returns the files of a schema's tables and indexes, and of the WAL since a segment.
func serverFiles(t *testing.T, conn *pgx.Conn, schema, since string) (files []string) {
	t.Helper()
	_, err := conn.Exec(t.Context(), "CHECKPOINT")
	require.NoError(t, err)
	var folder string
	require.NoError(t, conn.QueryRow(t.Context(), "SHOW data_directory").Scan(&folder))
	if _, err := os.Stat(folder); err != nil {
		t.Skip("the server's files are not here:", err)
	}
	rows, err := conn.Query(t.Context(), `SELECT pg_relation_filepath(c.oid) FROM pg_class c WHERE pg_relation_filepath(c.oid) IS NOT NULL AND
		(relnamespace = $1::regnamespace OR oid IN (SELECT reltoastrelid FROM pg_class WHERE relnamespace = $1::regnamespace))
		UNION ALL SELECT 'pg_wal/' || name FROM pg_ls_waldir() WHERE name >= $2 AND name <= pg_walfile_name(pg_current_wal_lsn())`, schema, since)
	require.NoError(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	for _, name := range names {
		files = append(files, filepath.Join(folder, name))
	}
	return files
}

// dumped returns how often a dump of the schema shows the word.
func dumped(t *testing.T, server *postgrestest.Cluster, schema, word string) int {
	t.Helper()
	program, err := exec.LookPath("pg_dump")
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_dump"); err != nil && len(found) > 0 {
		program, err = found[len(found)-1], nil
	}
	if err != nil {
		t.Skip(err)
	}
	out, err := exec.Command(program, "--schema", schema, server.URL()).Output()
	require.NoError(t, err)
	require.Contains(t, string(out), hex.EncodeToString([]byte(rowstoretest.PlantedName)))
	return bytes.Count(out, []byte(word)) + bytes.Count(out, []byte(hex.EncodeToString([]byte(word))))
}

var _ rowstoretest.Planting = (*postgres.Journal)(nil)

// A person with the database and without the keys swaps and removes boxes, and removes the mark of the keys. Nothing of it is
// claimed, and each answer that a caller gets is an error.
func TestSwappedBoxesOnTheServer(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	opts.Seal = rowstoretest.Ring(t, "k1")
	j := open(t, server, opts)
	s := join(t, j)
	sum := func(head []byte) []byte {
		return binary.LittleEndian.AppendUint32(nil, crc32.Checksum(head, crc32.MakeTable(crc32.Castagnoli)))
	}
	conn := server.Conn(t)
	heads := map[int64][]byte{}
	for _, id := range []string{"victim", "other"} {
		result, err := j.Apply(t.Context(), now(j, begin(id, s)))
		require.NoError(t, err)
		parked := complete(result.Operation, s)
		parked.Kind, parked.Answer, parked.Unsent, parked.Delivered, parked.Due = machine.EventPark, nil, true, false, j.Now()
		_, err = j.Apply(t.Context(), now(j, parked))
		require.NoError(t, err)
		var head []byte
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT head FROM "+opts.Schema+".requests WHERE handle = $1", result.Operation.Handle).Scan(&head))
		heads[result.Operation.Handle] = head
	}
	var facts []byte
	// Each row gets the other's request, and its record that request's sum and a sum of its own.
	for handle := range heads {
		var theirs []byte
		for other, head := range heads {
			if other != handle {
				theirs = head
			}
		}
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT facts FROM "+opts.Schema+".operations WHERE handle = $1", handle).Scan(&facts))
		n := len(facts)
		copy(facts[n-12:n-8], theirs[len(theirs)-4:])
		copy(facts[n-4:], sum(facts[:n-4]))
		server.Exec(t, "UPDATE "+opts.Schema+".operations SET facts = $1 WHERE handle = $2", facts, handle)
	}
	server.Exec(t, "UPDATE "+opts.Schema+".requests r SET head = o.head, body = o.body FROM "+opts.Schema+".requests o WHERE o.handle <> r.handle")
	claimed, err := j.Claim(t.Context(), now(j, machine.Event{Kind: machine.EventClaim, Session: s.ID(), Asker: 9}), 10)
	assert.Empty(t, claimed)
	require.ErrorContains(t, err, "damaged")
	_, err = j.Apply(t.Context(), now(j, begin("victim", s)))
	require.ErrorContains(t, err, "damaged")

	server.Exec(t, "UPDATE "+opts.Schema+".journal SET sealed = ''")
	_, err = postgres.Open(t.Context(), server.URL(), opts)
	require.ErrorContains(t, err, "the list of the keys that sealed it is gone")
}
