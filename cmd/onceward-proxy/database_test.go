package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/mysql/mysqltest"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
	"github.com/onceward/onceward/providers/providertest"
)

func TestJournalInPostgreSQL(t *testing.T) {
	server := postgrestest.Shared(t)
	journalInDatabase(t, server.URL(), server.Schema(t))
}

func TestJournalInMySQL(t *testing.T) {
	server := mysqltest.Shared(t)
	server.Exec(t, "SET GLOBAL innodb_flush_log_at_trx_commit = 1") // a proxy refuses another value
	journalInDatabase(t, "mysql://"+strings.NewReplacer("@tcp(", "@", ")", "").Replace(server.DSN()), server.Schema(t))
}

// Two processes, as on two machines, share a journal in a database: a name is one charge through both. The journal is made
// only by --new, as a file is.
func journalInDatabase(t *testing.T, address, schema string) {
	t.Setenv("DATABASE_URL", address)
	s := open(t, providertest.Objects("ch_"))
	text, err := os.ReadFile(s.file)
	require.NoError(t, err)
	text = []byte(strings.Replace(string(text), `"journal":"`+filepath.Join(s.dir, "payments.db")+`"`, `"journal":"env:DATABASE_URL","deployment":"test","schema":"`+schema+`"`, 1))
	require.NoError(t, os.WriteFile(s.file, text, 0o600))

	missing := s.run(t)
	require.Error(t, <-missing.ended)
	assert.Contains(t, missing.logged(), "Add --new once")
	s.start(t, "--new")
	first, status, err := charge(s.client(), viaSocket, "invoice-1")
	require.NoError(t, err)
	require.NotEmpty(t, first, status)

	other := *s
	other.file, other.socket = filepath.Join(s.dir, "other.json"), filepath.Join(s.dir, "other.sock")
	require.NoError(t, os.WriteFile(other.file, []byte(strings.Replace(string(text), s.socket, other.socket, 1)), 0o600))
	other.start(t)
	again, _, err := charge(other.client(), viaSocket, "invoice-1")
	require.NoError(t, err)
	assert.Equal(t, first, again)

	// A third process has a witness, which has seen more than the database has now.
	witness := filepath.Join(s.dir, "witness")
	require.NoError(t, os.WriteFile(witness, []byte("1000000"), 0o600))
	third := *s
	third.file, third.socket = filepath.Join(s.dir, "third.json"), filepath.Join(s.dir, "third.sock")
	text = []byte(strings.Replace(strings.Replace(string(text), s.socket, third.socket, 1), `"schema"`, `"witness":"`+witness+`","schema"`, 1))
	require.NoError(t, os.WriteFile(third.file, text, 0o600))
	third.start(t)
	for _, through := range []*shop{&third, &other} {
		id, _, err := charge(through.client(), viaSocket, "invoice-2")
		require.NoError(t, err)
		assert.Empty(t, id, "the journal counts as restored")
	}
	assert.Len(t, s.Effects(), 1)
}
