package main

import (
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/planted"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/mysql"
	"github.com/onceward/onceward/journal/mysql/mysqltest"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
	"github.com/onceward/onceward/seal"
)

// server is a database server under test.
type server interface {
	URL() string // with a password
	Schema(t testing.TB) string
	open(t *testing.T, schema string, keys *seal.Ring) inTables
	// one is a value that SQL returns, as text, and exec runs statements: {{schema}} is the journal's.
	one(t *testing.T, schema, query string) string
	exec(t *testing.T, schema, statement string)
	// accounts makes two accounts: one that may only read the journal, by the password reads-alone, and one that may do
	// nothing, by reads-nothing.
	accounts(t *testing.T, schema string) (reader, nobody string)
	// rows returns all rows of the tables.
	rows(t *testing.T, schema string, tables []string) string
}

type onPostgres struct{ *postgrestest.Cluster }

func (s onPostgres) open(t *testing.T, schema string, keys *seal.Ring) inTables {
	t.Helper()
	j, err := postgres.Open(t.Context(), s.URL(), postgres.Options{Schema: schema, Deployment: "test", Migrate: true, Seal: keys, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return j
}

func (s onPostgres) one(t *testing.T, schema, query string) (value string) {
	t.Helper()
	require.NoError(t, s.Conn(t).QueryRow(t.Context(), strings.ReplaceAll(query, "{{schema}}", `"`+schema+`"`)).Scan(&value))
	return value
}

func (s onPostgres) exec(t *testing.T, schema, statement string) {
	t.Helper()
	s.Exec(t, strings.ReplaceAll(statement, "{{schema}}", `"`+schema+`"`))
}

func (s onPostgres) accounts(t *testing.T, schema string) (reader, nobody string) {
	t.Helper()
	reader, nobody = "reader_"+schema, "nobody_"+schema
	for _, statement := range []string{
		"CREATE ROLE " + reader + " LOGIN PASSWORD 'reads-alone'", "CREATE ROLE " + nobody + " LOGIN PASSWORD 'reads-nothing'",
		"GRANT USAGE ON SCHEMA {{schema}} TO " + reader, "GRANT SELECT ON ALL TABLES IN SCHEMA {{schema}} TO " + reader, "GRANT SELECT ON ALL SEQUENCES IN SCHEMA {{schema}} TO " + reader,
	} {
		s.exec(t, schema, statement)
	}
	t.Cleanup(func() {
		s.Exec(t, fmt.Sprintf("DROP OWNED BY %[1]s; DROP ROLE %[1]s; DROP ROLE %[2]s", reader, nobody))
	})
	return reader, nobody
}

// rows has the rows' places too, so that a row which is rewritten unchanged counts as a change.
func (s onPostgres) rows(t *testing.T, schema string, tables []string) (all string) {
	t.Helper()
	all = s.one(t, schema, "SELECT last_value::text FROM {{schema}}.handles")
	for _, table := range tables {
		all += table + ": " + s.one(t, schema, "SELECT coalesce(string_agg(ctid::text || xmin::text || r::text, E'\\n' ORDER BY ctid), '') FROM {{schema}}."+table+" r") + "\n"
	}
	return all
}

type onMySQL struct{ *mysqltest.Server }

func (s onMySQL) URL() string {
	return "mysql://" + strings.NewReplacer("@tcp(", "@", ")", "").Replace(s.DSN())
}

func (s onMySQL) open(t *testing.T, schema string, keys *seal.Ring) inTables {
	t.Helper()
	j, err := mysql.Open(t.Context(), s.DSN(), mysql.Options{Schema: schema, Deployment: "test", Migrate: true, Seal: keys, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return j
}

func (s onMySQL) one(t *testing.T, schema, query string) (value string) {
	t.Helper()
	require.NoError(t, s.DB().QueryRowContext(t.Context(), strings.ReplaceAll(query, "{{schema}}", schema)).Scan(&value))
	return value
}

func (s onMySQL) exec(t *testing.T, schema, statement string) {
	t.Helper()
	s.Exec(t, strings.ReplaceAll(statement, "{{schema}}", schema))
}

func (s onMySQL) accounts(t *testing.T, schema string) (reader, nobody string) {
	t.Helper()
	reader, nobody = "reader_"+schema, "nobody_"+schema
	for account, password := range map[string]string{reader: "reads-alone", nobody: "reads-nothing"} {
		s.Exec(t, "CREATE USER "+account+" IDENTIFIED BY '"+password+"'")
		t.Cleanup(func() { s.Exec(t, "DROP USER "+account) })
	}
	s.Exec(t, "GRANT SELECT ON "+schema+".* TO "+reader)
	return reader, nobody
}

func (s onMySQL) rows(t *testing.T, schema string, tables []string) (all string) {
	t.Helper()
	rows, err := s.DB().QueryContext(t.Context(), "CHECKSUM TABLE "+schema+"."+strings.Join(append(tables, "handles"), ", "+schema+"."))
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var table, sum string
		require.NoError(t, rows.Scan(&table, &sum))
		all += table + ": " + sum + "\n"
	}
	require.NoError(t, rows.Err())
	return all
}

// onEach runs a test on each product of databases.
func onEach(t *testing.T, do func(*testing.T, server)) {
	t.Run("PostgreSQL", func(t *testing.T) { do(t, onPostgres{postgrestest.Shared(t)}) })
	t.Run("MySQL", func(t *testing.T) {
		s := mysqltest.Shared(t)
		s.Exec(t, "SET GLOBAL innodb_flush_log_at_trx_commit = 1") // the command writes to no journal without it
		do(t, onMySQL{s})
	})
}

// inDatabase is a planted journal in a database. An application has it open, with a session that lives.
type inDatabase struct {
	server
	schema string
	j      inTables
}

func databaseWith(t *testing.T, server server) *inDatabase {
	t.Helper()
	p := &inDatabase{server: server, schema: server.Schema(t)}
	p.j = p.opened(t)
	_, err := planted.Plant(t.Context(), p.j, p.j.Now())
	require.NoError(t, err)
	return p
}

func (p *inDatabase) opened(t *testing.T) inTables {
	t.Helper()
	j := p.open(t, p.schema, nil)
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func (p *inDatabase) env() []string {
	return []string{"ONCEWARD_JOURNAL=" + p.URL(), "ONCEWARD_SCHEMA=" + p.schema}
}

func (p *inDatabase) runs(t *testing.T, args ...string) said {
	t.Helper()
	s, err := tryIn(t.Context(), p.env(), "", args...)
	require.NoError(t, err)
	assert.NotContains(t, s.out+s.err, passwordOf(t, p.URL()))
	return s
}

func passwordOf(t *testing.T, raw string) string {
	t.Helper()
	u, err := url.Parse(raw)
	require.NoError(t, err)
	password, _ := u.User.Password()
	require.NotEmpty(t, password)
	return password
}

// has is a value that SQL returns.
func (p *inDatabase) has(t *testing.T, query string) string {
	t.Helper()
	return p.one(t, p.schema, query)
}

// all returns all rows of the journal. The application renews sessions and lanes, so only their identifiers and epochs
// are included.
func (p *inDatabase) all(t *testing.T) string {
	t.Helper()
	return p.rows(t, p.schema, []string{"operations", "names", "requests", "answers", "flows", "flow_steps", "marks", "heard"}) +
		p.has(t, "SELECT concat(epoch, schema_version, history) FROM {{schema}}.journal") +
		p.has(t, "SELECT concat(count(*), min(id), max(id), max(epoch)) FROM {{schema}}.sessions") + p.has(t, "SELECT concat(count(*), min(process), max(lane)) FROM {{schema}}.lanes")
}

// handles replaces #n with the n-th operation's handle, since handles begin with another number here.
func (p *inDatabase) handles(t *testing.T, args []string) []string {
	t.Helper()
	var all []string
	for op, err := range p.j.List(t.Context(), journal.Filter{}) {
		require.NoError(t, err)
		all = append(all, handleOf(op.Handle))
	}
	args = slices.Clone(args)
	for i, arg := range args {
		var n int
		if _, err := fmt.Sscanf(arg, "#%d", &n); err == nil && args[0] != "flow" {
			args[i] = all[n-1]
		}
	}
	return args
}
