package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/planted"
	keys "github.com/onceward/onceward/internal/receipts"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// inPostgres is a planted journal in PostgreSQL. An application has it open, with a session that lives.
type inPostgres struct {
	server *postgrestest.Cluster
	schema string
	j      *postgres.Journal
}

func postgresWith(t *testing.T) *inPostgres {
	t.Helper()
	server := postgrestest.Shared(t)
	p := &inPostgres{server: server, schema: server.Schema(t)}
	p.j = p.opened(t)
	_, err := planted.Plant(t.Context(), p.j, p.j.Now())
	require.NoError(t, err)
	return p
}

func (p *inPostgres) opened(t *testing.T) *postgres.Journal {
	t.Helper()
	j, err := postgres.Open(t.Context(), p.server.URL(), postgres.Options{Schema: p.schema, Deployment: "test", Migrate: true, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func (p *inPostgres) env() []string {
	return []string{"ONCEWARD_JOURNAL=" + p.server.URL(), "ONCEWARD_SCHEMA=" + p.schema}
}

func (p *inPostgres) runs(t *testing.T, args ...string) said {
	t.Helper()
	s, err := tryIn(t.Context(), p.env(), "", args...)
	require.NoError(t, err)
	assert.NotContains(t, s.out+s.err, passwordOf(t, p.server.URL()))
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

// one is a value that SQL returns.
func (p *inPostgres) one(t *testing.T, query string) (value string) {
	t.Helper()
	require.NoError(t, p.server.Conn(t).QueryRow(t.Context(), strings.ReplaceAll(query, "{{schema}}", `"`+p.schema+`"`)).Scan(&value))
	return value
}

// rows returns all rows of the journal with their places, so that a row which is rewritten unchanged counts as a
// change. The application renews sessions and lanes, so only their identifiers and epochs are included.
func (p *inPostgres) rows(t *testing.T) (all string) {
	t.Helper()
	for _, table := range []string{"operations", "names", "requests", "answers", "flows", "flow_steps", "marks", "heard"} {
		all += table + ": " + p.one(t, "SELECT coalesce(string_agg(ctid::text || xmin::text || r::text, E'\\n' ORDER BY ctid), '') FROM {{schema}}."+table+" r") + "\n"
	}
	return all + p.one(t, "SELECT (SELECT string_agg(id || epoch, ',' ORDER BY id) FROM {{schema}}.sessions) || (SELECT string_agg(process || lane, ',' ORDER BY process, lane) FROM {{schema}}.lanes) || "+
		"(SELECT epoch || schema_version::text || history FROM {{schema}}.journal) || (SELECT last_value FROM {{schema}}.handles)")
}

// handles replaces #n with the n-th operation's handle, since handles begin with another number here.
func (p *inPostgres) handles(t *testing.T, args []string) []string {
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

// Verbs that only read print of a journal in PostgreSQL what they print of a file, by the same schemas. They change
// no row, session, lane or epoch.
func TestPostgresIsRead(t *testing.T) {
	p := postgresWith(t)
	before := p.rows(t)
	for name, args := range verbs {
		if slices.Contains([]string{"reap", "adopt", "providers", "version"}, args[0]) {
			continue
		}
		for _, form := range []string{"table", "json"} {
			s := p.runs(t, append([]string{"-o", form}, p.handles(t, args)...)...)
			assert.Contains(t, []int{exitDone, exitFindings}, s.code, "%s: %s", name, s.err)
			assert.Equal(t, args[0] == "doctor", s.code == exitFindings, "%s: %s", name, s.err)
			if form == "json" && args[0] != "export" {
				assert.NoError(t, schemaFor(t, args[0]).Validate(decoded(t, s.out)), name)
			}
			if name != "export-bodies" {
				for _, canary := range []string{planted.Card, planted.Secret, "\u202e", "\x1b"} {
					assert.NotContains(t, s.out+s.err, canary, name)
				}
			}
		}
	}
	assert.Equal(t, before, p.rows(t))

	var all operations
	require.NoError(t, json.Unmarshal([]byte(p.runs(t, "-o", "json", "ls", "--limit", "3").out), &all))
	require.Len(t, all.Operations, 3)
	assert.Equal(t, planted.Held, all.Operations[0].ID)
	rest := p.runs(t, "-o", "jsonl", "ls", "--after", all.Next)
	assert.Len(t, strings.Split(strings.TrimSpace(rest.out), "\n"), 6)
	assert.Equal(t, exitFindings, p.runs(t, "stats", "--fail-if", "unknown>0").code)
	assert.Equal(t, exitUsage, p.runs(t, "doctor", "--backup", t.TempDir()).code)
	assert.Equal(t, exitDone, p.runs(t, "--pooled", "ls").code)
	s := p.runs(t, "doctor")
	for _, check := range []string{"server", "durability", "autovacuum", "tls", "connections", "clock", "clock-sync", "deployment", "sessions", "tables", "transactions"} {
		assert.Contains(t, s.out, "ok    "+check+": ", "a sound server")
	}
}

// Verbs that write work beside the application, and leave no session of their own.
func TestPostgresIsWritten(t *testing.T) {
	p := postgresWith(t)
	get := func(scope, id string) journal.Operation {
		op, err := p.j.Get(t.Context(), journal.Ref{Scope: scope, ID: id})
		require.NoError(t, err)
		return op
	}
	done := func(args ...string) {
		t.Helper()
		s := p.runs(t, append([]string{"-o", "json"}, args...)...)
		require.Equal(t, exitDone, s.code, "%v: %s", args, s.err)
	}
	epoch := p.one(t, "SELECT epoch::text FROM {{schema}}.journal")
	done("resolve", planted.Unknown, "--executed", "--because", "dashboard shows ch_9", "--by", "ann", "--yes", "--seen", "0.1")
	assert.Equal(t, journal.StateCompleted, get("", planted.Unknown).State)
	assert.Equal(t, "ann", get("", planted.Unknown).Resolved.By)
	was := get("", planted.Long)
	done("resolve", planted.Long, "--send-again", "--because", "the ledger has none", "--yes", "--seen", "0.1")
	assert.Equal(t, journal.StatePending, get("", planted.Long).State)
	assert.NotEqual(t, was.Key, get("", planted.Long).Key)
	done("cancel", planted.Unsent, "--scope", planted.Scope, "--yes", "--seen", "0.1")
	assert.Equal(t, journal.StateCancelled, get(planted.Scope, planted.Unsent).State)
	done("flow", "retry", planted.SetAside)
	done("flow", "give-up", planted.Waiting, "--because", "the customer left", "--yes")
	f, err := p.j.GetFlow(t.Context(), journal.Ref{ID: planted.Waiting})
	require.NoError(t, err)
	assert.True(t, f.Undoing)
	for _, row := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"resolve", planted.Hostile, "--scope", "tenant\u2066-x", "--not-executed", "--seen", "0.7"}, exitRefused, "has changed"},
		{[]string{"resolve", planted.Held, "--executed", "--seen", "0.1"}, exitRefused, "another caller is sending it"},
		{[]string{"resolve", planted.Completed, "--not-executed", "--seen", "0.1"}, exitRefused, "outcome is known"},
		{[]string{"resolve", planted.Closing, "--send-again", "--seen", "0.1"}, exitRefused, "waiting sends it"},
		{[]string{"resolve", "no-such", "--executed", "--seen", "0.1"}, exitNotFound, "no operation"},
	} {
		s := p.runs(t, append(row.args, "--because", "x", "--yes")...)
		assert.Equal(t, row.code, s.code, "%v: %s", row.args, s.err)
		assert.Contains(t, s.err, row.says)
	}
	done("reap", "--keep", "2160h")
	done("adopt", "--yes")
	assert.Equal(t, epoch, p.one(t, "SELECT epoch::text FROM {{schema}}.journal"), "it was nobody's copy")
	assert.Equal(t, "1", p.one(t, "SELECT count(*)::text FROM {{schema}}.sessions WHERE id <> process AND buried_at IS NULL"), "the application's")
	assert.Equal(t, "1", p.one(t, "SELECT count(*)::text FROM {{schema}}.sessions WHERE id = process AND buried_at IS NULL"), "likewise")

	// A copy is adopted, and nothing is sent before.
	p.server.Exec(t, fmt.Sprintf(`UPDATE "%s".journal SET restored = 'is older than what was acknowledged'`, p.schema))
	s := p.runs(t, "resolve", planted.Hostile, "--scope", "tenant\u2066-x", "--not-executed", "--because", "x", "--yes", "--seen", "0.1")
	assert.Equal(t, exitRefused, s.code, s.err)
	done("adopt", "--yes")
	assert.NotEqual(t, epoch, p.one(t, "SELECT epoch::text FROM {{schema}}.journal"))
	assert.Equal(t, exitDone, p.runs(t, "verify").code)
}

// If the journal can't be opened, the command says why, by its exit code too, and prints no password.
func TestPostgresIsRefused(t *testing.T) {
	p := postgresWith(t)
	require.NoError(t, p.j.Close())
	server := p.server
	conn := server.Conn(t)
	role := "reader_" + p.schema
	for _, statement := range []string{
		"CREATE ROLE " + role + " LOGIN PASSWORD 'reads-alone'", "CREATE ROLE nobody_" + p.schema + " LOGIN PASSWORD 'reads-nothing'",
		fmt.Sprintf(`GRANT USAGE ON SCHEMA "%s" TO %s`, p.schema, role), fmt.Sprintf(`GRANT SELECT ON ALL TABLES IN SCHEMA "%s" TO %s`, p.schema, role),
		fmt.Sprintf(`GRANT SELECT ON ALL SEQUENCES IN SCHEMA "%s" TO %s`, p.schema, role),
	} {
		_, err := conn.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	t.Cleanup(func() {
		server.Exec(t, fmt.Sprintf("DROP OWNED BY %[1]s; DROP ROLE %[1]s; DROP ROLE nobody_%[2]s", role, p.schema))
	})
	with := func(change func(u *url.URL)) string {
		u, err := url.Parse(server.URL())
		require.NoError(t, err)
		change(u)
		return u.String()
	}
	as := func(user, password string) string {
		return with(func(u *url.URL) { u.User = url.UserPassword(user, password) })
	}
	for name, row := range map[string]struct {
		url, schema string
		args        []string
		code        int
		says        string
	}{
		"a wrong password":          {as("onceward", "not-the-password"), p.schema, []string{"ls"}, exitRefused, "the password is wrong"},
		"a role that there is not":  {as("stranger", "not-the-password"), p.schema, []string{"ls"}, exitRefused, "as stranger"},
		"a URL that can't be read":  {"postgres://onceward:pass word/with#all@in/it@127.0.0.1:port/x", p.schema, []string{"ls"}, exitUsage, "can't be read"},
		"a setting that is wrong":   {with(func(u *url.URL) { u.RawQuery = "sslmode=perhaps" }), p.schema, []string{"ls"}, exitUsage, "sslmode"},
		"no service of that name":   {with(func(u *url.URL) { u.RawQuery = "service=none-of-this-name" }), p.schema, []string{"ls"}, exitUsage, "can't be used"},
		"no server":                 {with(func(u *url.URL) { u.Host = "127.0.0.1:1" }), p.schema, []string{"ls"}, exitFailed, "is it up"},
		"no database":               {with(func(u *url.URL) { u.Path = "/none" }), p.schema, []string{"ls"}, exitNotFound, "no such database"},
		"no schema":                 {server.URL(), "none_here", []string{"ls"}, exitNotFound, "no journal in schema none_here"},
		"no schema, to write":       {server.URL(), "none_here", []string{"flow", "retry", "x"}, exitNotFound, "no journal in schema none_here"},
		"no schema, to reap":        {server.URL(), "none_here", []string{"reap", "--keep", "2160h"}, exitNotFound, "no journal in schema none_here"},
		"no name of a schema":       {server.URL(), "No Schema", []string{"ls"}, exitUsage, "a-z"},
		"a role that may not read":  {as("nobody_"+p.schema, "reads-nothing"), p.schema, []string{"ls"}, exitRefused, "the role lacks"},
		"a role that may read":      {as(role, "reads-alone"), p.schema, []string{"ls"}, exitDone, ""},
		"a role that may only read": {as(role, "reads-alone"), p.schema, []string{"flow", "retry", planted.SetAside}, exitRefused, "the role lacks"},
		"another kind of database":  {"mysql://onceward:hidden-one@127.0.0.1/x", p.schema, []string{"ls"}, exitUsage, "mysql://…"},
		"a copy":                    {server.URL(), p.schema, []string{"backup", filepath.Join(t.TempDir(), "copy")}, exitUsage, "pg_dump"},
		"no terminal to ask on":     {server.URL(), p.schema, []string{"resolve", planted.Unknown, "--executed", "--because", "x"}, exitUsage, "--yes"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := tryIn(t.Context(), []string{"ONCEWARD_JOURNAL=" + row.url, "ONCEWARD_SCHEMA=" + row.schema}, "", row.args...)
			require.NoError(t, err)
			assert.Equal(t, row.code, s.code, s.err)
			assert.Contains(t, s.err, row.says)
			for _, secret := range []string{passwordOf(t, server.URL()), "not-the-password", "pass word", "with#all", "hidden-one", "reads-"} {
				assert.NotContains(t, s.out+s.err, secret)
			}
			assert.Equal(t, row.code == exitDone, s.out != "")
		})
	}
	t.Run("a password on the command line", func(t *testing.T) {
		for _, at := range []string{server.URL(), "postgres://127.0.0.1/x?password=hidden-one", "postgres://onceward:pass word/@127.0.0.1/x"} {
			s := runs(t, "-j", at, "ls")
			assert.Equal(t, exitUsage, s.code)
			assert.Contains(t, s.err, ".pgpass")
			assert.NotContains(t, s.err, passwordOf(t, server.URL()))
			assert.NotContains(t, s.err, "hidden-one")
		}
		u, err := url.Parse(server.URL())
		require.NoError(t, err)
		password := passwordOf(t, server.URL())
		u.User = url.User(u.User.Username())
		s, err := tryIn(t.Context(), []string{"PGPASSWORD=" + password}, "", "-j", u.String(), "--schema", p.schema, "ls")
		require.NoError(t, err)
		assert.Equal(t, exitDone, s.code, s.err)
		files := t.TempDir()
		pass, service := filepath.Join(files, "pgpass"), filepath.Join(files, "services")
		require.NoError(t, os.WriteFile(pass, fmt.Appendf(nil, "%s:%s:*:onceward:%s\n", u.Hostname(), u.Port(), password), 0o600))
		require.NoError(t, os.WriteFile(service, fmt.Appendf(nil, "[payments]\nhost=%s\nport=%s\nuser=onceward\ndbname=postgres\nsslmode=disable\n", u.Hostname(), u.Port()), 0o600))
		s, err = tryIn(t.Context(), []string{"PGPASSFILE=" + pass, "PGSERVICEFILE=" + service}, "", "-j", "postgres:///?service=payments", "--schema", p.schema, "ls")
		require.NoError(t, err)
		assert.Equal(t, exitDone, s.code, s.err)
		s, err = tryIn(t.Context(), p.env(), "", "help")
		require.NoError(t, err)
		assert.NotContains(t, s.out+s.err, password, "help shows defaults")
	})
	t.Run("a journal of a newer release", func(t *testing.T) {
		server.Exec(t, fmt.Sprintf(`UPDATE "%s".journal SET least_writer = 99`, p.schema))
		before := p.rows(t)
		for _, args := range [][]string{{"ls"}, {"verify"}, {"flow", "retry", planted.SetAside}, {"reap", "--keep", "2160h"}} {
			s := p.runs(t, args...)
			assert.Equal(t, exitRefused, s.code, "%v: %s", args, s.err)
		}
		assert.Equal(t, exitFindings, p.runs(t, "doctor").code)
		assert.Equal(t, before, p.rows(t))
		server.Exec(t, fmt.Sprintf(`UPDATE "%s".journal SET least_writer = 1, schema_version = 0`, p.schema))
		assert.Equal(t, exitRefused, p.runs(t, "ls").code)
	})
}

// The command does everything it can beside an application under load on PostgreSQL, and both are killed at random.
// The application notices nothing, the command leaves no session, and the journal is sound.
func TestBesideAnApplicationOnPostgres(t *testing.T) {
	server := postgrestest.Shared(t)
	p := &inPostgres{server: server, schema: server.Schema(t)}
	p.j = p.opened(t)
	require.NoError(t, p.j.Close())
	app := starts(t, server.URL(), p.env()...)
	random := rand.New(rand.NewPCG(soak.Seed(t, 1), 0))
	codes := map[int]int{}
	for round := range soak.Times(30, 90) {
		if round%30 == 29 {
			assert.Empty(t, app.ends(t, round%60 == 29))
			app = starts(t, server.URL(), p.env()...)
		}
		handle := fmt.Sprintf("#%d", int64(1<<40+1)+random.Int64N(500))
		every := [][]string{
			{"ls"}, {"ls", "--state", "unknown"}, {"attention"}, {"show", handle, "--reveal"}, {"why", handle}, {"flows"}, {"stats"},
			{"verify"}, {"doctor", "--bodies", "20"}, {"export"}, {"adopt", "--yes"}, {"reap", "--keep", "2160h"},
			{"resolve", handle, "--executed", "--because", "a test", "--yes", "--seen", "0.1"}, {"resolve", handle, "--not-executed", "--because", "a test", "--yes", "--seen", "0.1"},
			{"resolve", handle, "--send-again", "--because", "a test", "--yes", "--seen", "0.1"}, {"cancel", handle, "--yes", "--seen", "0.1"},
			{"flow", "retry", "none"}, {"flow", "give-up", "none", "--because", "a test", "--yes"},
		}
		args := append([]string{"-o", "json"}, every[random.IntN(len(every))]...)
		ctx, cancel := t.Context(), context.CancelFunc(func() {})
		if random.IntN(2) == 0 {
			ctx, cancel = context.WithTimeout(ctx, time.Duration(random.IntN(150))*time.Millisecond)
		}
		s, err := tryIn(ctx, p.env(), "", args...)
		killed := ctx.Err() != nil || err != nil
		cancel()
		if killed {
			continue
		}
		codes[s.code]++
		assert.Contains(t, []int{exitDone, exitNotFound, exitRefused, exitFindings}, s.code, "%v: %s", args, s.err)
	}
	assert.Empty(t, app.ends(t, false))
	t.Logf("exit codes: %v", codes)
	j := p.opened(t)
	found, err := j.Verify(t.Context())
	require.NoError(t, err)
	assert.Empty(t, found)
	stats, err := j.ReadStats(t.Context())
	require.NoError(t, err)
	assert.Empty(t, stats.Restored)
	assert.Equal(t, "1", p.one(t, "SELECT epoch::text FROM {{schema}}.journal"), "nobody was cut off")
}

// A malformed database URL is not printed. Part of a password could be taken for a host's name, a database or a
// file.
func TestMalformedURLIsNotPrinted(t *testing.T) {
	for _, at := range []string{
		"postgres://shop:hid@den-one@127.0.0.1:1/shop", "postgres://shop:1/hidden-one@127.0.0.1/shop", "postgres://shop:1?hidden-one@127.0.0.1/shop", "postgres://shop:1#hidden-one@127.0.0.1/shop",
		"postgres://shop@127.0.0.1:1/shop;password=hidden-one", "postgres:/shop:hidden-one@127.0.0.1/shop", "postgresql:shop:hidden-one@127.0.0.1/shop",
		"POSTGRES://shop:hidden-one@127.0.0.1:1/shop", ` "postgres://shop:hidden-one@127.0.0.1:1/shop"`, "host=127.0.0.1 port=1 user=shop password=hidden-one", "jdbc:postgresql://127.0.0.1:1/shop?password=hidden-one",
	} {
		for _, args := range [][]string{{"ls"}, {"doctor"}, {"ui", "--listen", "127.0.0.1:0"}, {"reap", "--keep", "2160h"}, {"flow", "retry", "x"}} {
			s, err := tryIn(t.Context(), []string{"ONCEWARD_JOURNAL=" + at}, "", args...)
			require.NoError(t, err)
			assert.Equal(t, exitUsage, s.code, "%s: %s", at, s.err)
			assert.NotContains(t, s.out+s.err, "den-one", args)
		}
		s, err := tryIn(t.Context(), nil, "", "-j", at, "ls")
		require.NoError(t, err)
		assert.Equal(t, exitUsage, s.code, "%s: %s", at, s.err)
		assert.NotContains(t, s.out+s.err, "den-one")
	}
	s, err := tryIn(t.Context(), nil, "", "-j", "user=shop.db", "ls")
	require.NoError(t, err)
	assert.Equal(t, exitUsage, s.code)
	where := t.TempDir()
	path := filepath.Join(where, "user=shop.db")
	require.NoError(t, os.WriteFile(path, []byte("no journal"), 0o600))
	s, err = tryIn(t.Context(), nil, "", "-j", path, "ls")
	require.NoError(t, err)
	assert.Equal(t, exitRefused, s.code, "a file is one whatever its name: %s", s.err)
}

// The command says so, by its exit code too, if the tables belong to another program or an incomplete journal.
func TestOtherTablesAreNoJournal(t *testing.T) {
	server := postgrestest.Shared(t)
	says := func(schema string, args ...string) said {
		t.Helper()
		s, err := tryIn(t.Context(), []string{"ONCEWARD_JOURNAL=" + server.URL(), "ONCEWARD_SCHEMA=" + schema}, "", args...)
		require.NoError(t, err)
		return s
	}
	theirs := server.Schema(t)
	server.Exec(t, `CREATE SCHEMA IF NOT EXISTS "`+theirs+`"`)
	server.Exec(t, `CREATE TABLE "`+theirs+`".journal (id int)`)
	for _, args := range [][]string{{"ls"}, {"doctor"}, {"flow", "retry", "x"}} {
		s := says(theirs, args...)
		assert.Equal(t, exitRefused, s.code, args)
		assert.Contains(t, s.err, "is it another database")
		assert.NotContains(t, s.err, "Migrate", "that would make one there")
	}
	for _, breaks := range []string{`DROP TABLE "%s".flows`, `ALTER TABLE "%s".operations DROP COLUMN state`} {
		broken := server.Schema(t)
		require.NoError(t, postgres.Migrate(t.Context(), server.URL(), broken))
		server.Exec(t, fmt.Sprintf(breaks, broken))
		s := says(broken, "doctor")
		assert.Equal(t, exitFindings, s.code, breaks)
		assert.Contains(t, s.out, "fail  stats: the journal's content can't be read")
	}
}

// Receipts in PostgreSQL are listed, shown, counted and resolved as those in a file.
func TestReceiptsInPostgres(t *testing.T) {
	p := postgresWith(t)
	assert.NotContains(t, p.runs(t, "stats").out, "receipts")
	require.NoError(t, planted.PlantReceipts(t.Context(), p.j, p.j.Now().Add(-time.Hour), time.Millisecond))

	s := p.runs(t, "receipts", "--state", "reserved", "-o", "json")
	require.Equal(t, exitDone, s.code, s.err)
	var page receipts
	require.NoError(t, json.Unmarshal([]byte(s.out), &page))
	assert.EqualValues(t, 3, page.Counts.Completed)
	assert.EqualValues(t, 2, page.Counts.Reserved)
	require.Len(t, page.Receipts, 2)
	assert.Equal(t, planted.Consumer, page.Receipts[0].Consumer, "the newest first")
	assert.Contains(t, p.runs(t, "attention").out, "refunds.create")
	assert.Contains(t, p.runs(t, "verify").out, "5 receipts")
	assert.Contains(t, p.runs(t, "receipt", planted.AnsweredKey, "--tenant", planted.Tenant).out, "answer")
	assert.Contains(t, p.runs(t, "receipt", planted.Hostile, "--tenant", planted.Hostile, "--endpoint", "payments.create").out, "completed", "its key is counted for its endpoint")

	resolve := []string{"receipt", "resolve", page.Receipts[1].Handle, "--because", "the ledger has it", "--yes", "--seen", strings.TrimPrefix(page.Receipts[1].Handle, "#") + ".1"}
	require.Equal(t, exitDone, p.runs(t, append(resolve, "--executed", "--answer-status", "204")...).code)
	assert.Equal(t, exitRefused, p.runs(t, append(resolve, "--not-executed")...).code)
	r, err := p.j.GetReceipt(t.Context(), keys.Name{Tenant: planted.Tenant, Key: planted.ReservedKey}.Receipt())
	require.NoError(t, err)
	assert.Equal(t, 204, r.Answer.Status)

	s = p.runs(t, "reap", "--keep", "2160h")
	require.Equal(t, exitDone, s.code, s.err)
	assert.Contains(t, s.out, "receipts")
	_, err = p.j.GetReceipt(t.Context(), keys.Name{Consumer: planted.Consumer, Source: planted.Source, Key: planted.DoneEvent}.Receipt())
	require.NoError(t, err, "its key is still refused")
}

// A list is compared with a journal in PostgreSQL, and an object with a mark is looked for there.
func TestCompareInPostgres(t *testing.T) {
	p := postgresWith(t)
	_, args := listOf(t, "ch_1,,20.00,EUR", "ch_3,,20.00,EUR", "ch_9,a-lost-reference,1.00,EUR")
	s := p.runs(t, args...)
	require.Equal(t, exitDone, s.code, s.out+s.err)
	assert.Contains(t, s.out, "2 of 2 operations matched, 2 amounts compared")
	assert.Contains(t, s.out, "1 objects made before the first operation with an object", "nothing was recorded under Reconcile")
}
