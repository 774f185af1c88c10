package main

import (
	"context"
	"encoding/json"
	"fmt"
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
	"github.com/onceward/onceward/internal/sample"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
)

// Verbs that only read print of a journal in a database what they print of a file, by the same schemas. They change
// no row, session, lane or epoch.
func TestDatabaseIsRead(t *testing.T) { onEach(t, databaseIsRead) }

func databaseIsRead(t *testing.T, server server) {
	p := databaseWith(t, server)
	before := p.all(t)
	for name, args := range verbs {
		if slices.Contains([]string{"reap", "adopt", "providers", "version"}, args[0]) {
			continue
		}
		for _, form := range []string{"table", "json"} {
			if form == "table" && !sample.TakesName(name, 2) {
				continue
			}
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
	assert.Equal(t, before, p.all(t))

	var all operations
	require.NoError(t, json.Unmarshal([]byte(p.runs(t, "-o", "json", "ls", "--limit", "3").out), &all))
	require.Len(t, all.Operations, 3)
	assert.Equal(t, planted.Held, all.Operations[0].ID)
	rest := p.runs(t, "-o", "jsonl", "ls", "--after", all.Next)
	assert.Len(t, strings.Split(strings.TrimSpace(rest.out), "\n"), 6)
	assert.Equal(t, exitFindings, p.runs(t, "stats", "--fail-if", "unknown>0").code)
	assert.Equal(t, exitUsage, p.runs(t, "doctor", "--backup", t.TempDir()).code)
	assert.NotContains(t, p.runs(t, "stats").out, "WAL", "it is a file's")
	pooled, of := exitDone, "autovacuum"
	if _, is := server.(onMySQL); is {
		pooled, of = exitUsage, "settings"
	}
	assert.Equal(t, pooled, p.runs(t, "--pooled", "ls").code)
	s := p.runs(t, "doctor")
	for _, check := range []string{"server", "durability", of, "tls", "connections", "clock", "clock-sync", "deployment", "sessions", "tables", "transactions"} {
		assert.Contains(t, s.out, "ok    "+check+": ", "a sound server")
	}
}

// Verbs that write work beside the application, and leave no session of their own.
func TestDatabaseIsWritten(t *testing.T) { onEach(t, databaseIsWritten) }

func databaseIsWritten(t *testing.T, server server) {
	p := databaseWith(t, server)
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
	epoch := p.has(t, "SELECT concat(epoch) FROM {{schema}}.journal")
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
	assert.Equal(t, epoch, p.has(t, "SELECT concat(epoch) FROM {{schema}}.journal"), "it was nobody's copy")
	assert.Equal(t, "1", p.has(t, "SELECT concat(count(*)) FROM {{schema}}.sessions WHERE id <> process AND buried_at IS NULL"), "the application's")
	assert.Equal(t, "1", p.has(t, "SELECT concat(count(*)) FROM {{schema}}.sessions WHERE id = process AND buried_at IS NULL"), "likewise")

	// A copy is adopted, and nothing is sent before.
	p.exec(t, p.schema, "UPDATE {{schema}}.journal SET restored = 'is older than what was acknowledged'")
	s := p.runs(t, "resolve", planted.Hostile, "--scope", "tenant\u2066-x", "--not-executed", "--because", "x", "--yes", "--seen", "0.1")
	assert.Equal(t, exitRefused, s.code, s.err)
	done("adopt", "--yes")
	assert.NotEqual(t, epoch, p.has(t, "SELECT concat(epoch) FROM {{schema}}.journal"))
	assert.Equal(t, exitDone, p.runs(t, "verify").code)
}

// If the journal can't be opened, the command says why, by its exit code too, and prints no password.
func TestDatabaseIsRefused(t *testing.T) { onEach(t, databaseIsRefused) }

func databaseIsRefused(t *testing.T, server server) {
	p := databaseWith(t, server)
	require.NoError(t, p.j.Close())
	reader, nobody := server.accounts(t, p.schema)
	with := func(change func(u *url.URL)) string {
		u, err := url.Parse(server.URL())
		require.NoError(t, err)
		change(u)
		return u.String()
	}
	as := func(user, password string) string {
		return with(func(u *url.URL) { u.User = url.UserPassword(user, password) })
	}
	type row struct {
		url, schema string
		args        []string
		code        int
		says        string
	}
	rows := map[string]row{
		"a wrong password":          {as("onceward", "not-the-password"), p.schema, []string{"ls"}, exitRefused, "the password"},
		"a role that there is not":  {as("stranger", "not-the-password"), p.schema, []string{"ls"}, exitRefused, "as stranger"},
		"no server":                 {with(func(u *url.URL) { u.Host = "127.0.0.1:1" }), p.schema, []string{"ls"}, exitFailed, "the server"},
		"no database":               {with(func(u *url.URL) { u.Path = "/none" }), p.schema, []string{"ls"}, exitNotFound, "no such database"},
		"no schema":                 {server.URL(), "none_here", []string{"ls"}, exitNotFound, "no journal in schema none_here"},
		"no schema, to write":       {server.URL(), "none_here", []string{"flow", "retry", "x"}, exitNotFound, "no journal in schema none_here"},
		"no schema, to reap":        {server.URL(), "none_here", []string{"reap", "--keep", "2160h"}, exitNotFound, "no journal in schema none_here"},
		"no name of a schema":       {server.URL(), "No Schema", []string{"ls"}, exitUsage, "a-z"},
		"a role that may not read":  {as(nobody, "reads-nothing"), p.schema, []string{"ls"}, exitRefused, "the role lacks"},
		"a role that may read":      {as(reader, "reads-alone"), p.schema, []string{"ls"}, exitDone, ""},
		"a role that may examine":   {as(reader, "reads-alone"), p.schema, []string{"doctor", "-o", "json"}, exitFindings, ""},
		"a role that may only read": {as(reader, "reads-alone"), p.schema, []string{"flow", "retry", planted.SetAside}, exitRefused, "lacks"},
		"another kind of database":  {"redis://onceward:hidden-one@127.0.0.1/x", p.schema, []string{"ls"}, exitUsage, "redis://…"},
		"a copy":                    {server.URL(), p.schema, []string{"backup", filepath.Join(t.TempDir(), "copy")}, exitUsage, "dump"},
		"no terminal to ask on":     {server.URL(), p.schema, []string{"resolve", planted.Unknown, "--executed", "--because", "x"}, exitUsage, "--yes"},
	}
	if _, is := server.(onPostgres); is {
		rows["a URL that can't be read"] = row{"postgres://onceward:pass word/with#all@in/it@127.0.0.1:port/x", p.schema, []string{"ls"}, exitUsage, "can't be read"}
		rows["a setting that is wrong"] = row{with(func(u *url.URL) { u.RawQuery = "sslmode=perhaps" }), p.schema, []string{"ls"}, exitUsage, "sslmode"}
		rows["no service of that name"] = row{with(func(u *url.URL) { u.RawQuery = "service=none-of-this-name" }), p.schema, []string{"ls"}, exitUsage, "can't be used"}
	} else {
		rows["a role that may not read"] = row{as(nobody, "reads-nothing"), p.schema, []string{"ls"}, exitNotFound, "may see"}
		rows["a URL that can't be read"] = row{"mysql://onceward:pass word/with#all@in/it@127.0.0.1:port/x", p.schema, []string{"ls"}, exitUsage, "can't be read"}
		rows["a setting that is wrong"] = row{with(func(u *url.URL) { u.RawQuery = "sslmode=perhaps" }), p.schema, []string{"ls"}, exitUsage, "sslmode"}
		rows["a value that is wrong"] = row{with(func(u *url.URL) { u.RawQuery = "timeout=hidden-one" }), p.schema, []string{"ls"}, exitUsage, "can't be used"}
		rows["no encryption there"] = row{with(func(u *url.URL) { u.RawQuery = "tls=true" }), p.schema, []string{"ls"}, exitFailed, "TLS"}
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			s, err := tryIn(t.Context(), []string{"ONCEWARD_JOURNAL=" + row.url, "ONCEWARD_SCHEMA=" + row.schema}, "", row.args...)
			require.NoError(t, err)
			assert.Equal(t, row.code, s.code, s.err)
			assert.Contains(t, s.err, row.says)
			for _, secret := range []string{passwordOf(t, server.URL()), "not-the-password", "pass word", "with#all", "hidden-one", "reads-"} {
				assert.NotContains(t, s.out+s.err, secret)
			}
			assert.Equal(t, row.code == exitDone || row.code == exitFindings, s.out != "")
		})
	}
	t.Run("a journal of a newer release", func(t *testing.T) {
		server.exec(t, p.schema, "UPDATE {{schema}}.journal SET least_writer = 99")
		before := p.all(t)
		for _, args := range [][]string{{"ls"}, {"verify"}, {"flow", "retry", planted.SetAside}, {"reap", "--keep", "2160h"}} {
			s := p.runs(t, args...)
			assert.Equal(t, exitRefused, s.code, "%v: %s", args, s.err)
		}
		assert.Equal(t, exitFindings, p.runs(t, "doctor").code)
		assert.Equal(t, before, p.all(t))
		server.exec(t, p.schema, "UPDATE {{schema}}.journal SET least_writer = 1, schema_version = 0")
		assert.Equal(t, exitRefused, p.runs(t, "ls").code)
	})
}

// A command line has no password. The password comes from where each product's own programs take it.
func TestPasswordIsOnNoCommandLine(t *testing.T) {
	onEach(t, func(t *testing.T, server server) {
		p := databaseWith(t, server)
		password := passwordOf(t, server.URL())
		refused := []string{server.URL()}
		u, err := url.Parse(server.URL())
		require.NoError(t, err)
		u.User = url.User(u.User.Username())
		files := t.TempDir()
		pass, service := filepath.Join(files, "pgpass"), filepath.Join(files, "services")
		require.NoError(t, os.WriteFile(pass, fmt.Appendf(nil, "%s:%s:*:onceward:%s\n", u.Hostname(), u.Port(), password), 0o600))
		require.NoError(t, os.WriteFile(service, fmt.Appendf(nil, "[payments]\nhost=%s\nport=%s\nuser=onceward\ndbname=postgres\nsslmode=disable\n", u.Hostname(), u.Port()), 0o600))
		var taken [][2]string // an address, and the environment
		says := "~/.pgpass"
		if s, is := server.(onMySQL); is {
			says = "MYSQL_PWD"
			refused = append(refused, s.DSN(), "mysql://shop:pass word/@127.0.0.1/", "shop:hidden-one@unix(/run/none)/")
			taken = [][2]string{{u.String(), "MYSQL_PWD=" + password}, {"onceward@tcp(" + u.Host + ")/", "MYSQL_PWD=" + password}, {"", "ONCEWARD_JOURNAL=" + s.DSN()}}
		} else {
			refused = append(refused, "postgres://127.0.0.1/x?password=hidden-one", "postgres://onceward:pass word/@127.0.0.1/x")
			taken = [][2]string{{u.String(), "PGPASSWORD=" + password}, {u.String(), "PGPASSFILE=" + pass}}
		}
		for _, at := range refused {
			for _, args := range [][]string{{"-j", at, "ls"}, {"-j", "none.db", "compare", "list.csv", "--provider", "stripe", "--from", "2026-01-01", "--to", "2026-01-02", "--also", at}} {
				s, err := tryIn(t.Context(), p.env(), "", args...)
				require.NoError(t, err)
				assert.Equal(t, exitUsage, s.code)
				assert.Contains(t, s.err, says)
				for _, secret := range []string{password, "hidden-one", "pass word"} {
					assert.NotContains(t, s.err, secret)
				}
			}
		}
		for _, from := range taken {
			s, err := tryIn(t.Context(), []string{from[1]}, "", "-j", from[0], "--schema", p.schema, "ls")
			require.NoError(t, err)
			assert.Equal(t, exitDone, s.code, s.err)
		}
		if _, is := server.(onPostgres); is {
			s, err := tryIn(t.Context(), []string{"PGPASSFILE=" + pass, "PGSERVICEFILE=" + service}, "", "-j", "postgres:///?service=payments", "--schema", p.schema, "ls")
			require.NoError(t, err)
			assert.Equal(t, exitDone, s.code, s.err)
		}
		assert.NotContains(t, p.runs(t, "help").out, password, "help shows defaults")
	})
}

// The command does everything it can beside an application under load on a database, and both are killed at random.
// The application notices nothing, the command leaves no session, and the journal is sound.
func TestBesideAnApplicationOnADatabase(t *testing.T) { onEach(t, besideAnApplication) }

func besideAnApplication(t *testing.T, server server) {
	p := &inDatabase{server: server, schema: server.Schema(t)}
	p.j = p.opened(t)
	require.NoError(t, p.j.Close())
	app := starts(t, p.URL(), p.env()...)
	random := rand.New(rand.NewPCG(soak.Seed(t, 1), 0))
	codes := map[int]int{}
	for round := range soak.Times(30, 90) {
		if round%30 == 29 {
			assert.Empty(t, app.ends(t, round%60 == 29))
			app = starts(t, p.URL(), p.env()...)
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
	assert.Equal(t, "1", p.has(t, "SELECT concat(epoch) FROM {{schema}}.journal"), "nobody was cut off")
}

// A malformed database URL is not printed. Part of a password could be taken for a host's name, a database or a
// file.
func TestMalformedURLIsNotPrinted(t *testing.T) {
	for _, at := range []string{
		"postgres://shop:hid@den-one@127.0.0.1:1/shop", "postgres://shop:1/hidden-one@127.0.0.1/shop", "postgres://shop:1?hidden-one@127.0.0.1/shop", "postgres://shop:1#hidden-one@127.0.0.1/shop",
		"postgres://shop@127.0.0.1:1/shop;password=hidden-one", "postgres:/shop:hidden-one@127.0.0.1/shop", "postgresql:shop:hidden-one@127.0.0.1/shop",
		"POSTGRES://shop:hidden-one@127.0.0.1:1/shop", ` "postgres://shop:hidden-one@127.0.0.1:1/shop"`, "host=127.0.0.1 port=1 user=shop password=hidden-one", "jdbc:postgresql://127.0.0.1:1/shop?password=hidden-one",
		"mysql://shop:hid@den-one@127.0.0.1:1/shop", "mysql://shop:1/hidden-one@127.0.0.1/shop", "mysql:/shop:hidden-one@127.0.0.1/shop", "MYSQL://shop:hidden-one@127.0.0.1:1/shop",
		"shop:hidden-one@tcp(127.0.0.1:1)", "shop:hidden-one@127.0.0.1:1/shop", "shop:hidden-one@/shop", "shop:hidden-one@tcp(127.0.0.1:1)/shop?tls=corporate",
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
	onEach(t, func(t *testing.T, server server) {
		says := func(schema string, args ...string) said {
			t.Helper()
			s, err := tryIn(t.Context(), []string{"ONCEWARD_JOURNAL=" + server.URL(), "ONCEWARD_SCHEMA=" + schema}, "", args...)
			require.NoError(t, err)
			return s
		}
		theirs := server.Schema(t)
		server.exec(t, theirs, `CREATE SCHEMA IF NOT EXISTS {{schema}}`)
		server.exec(t, theirs, `CREATE TABLE {{schema}}.journal (id int)`)
		for _, args := range [][]string{{"ls"}, {"doctor"}, {"flow", "retry", "x"}} {
			s := says(theirs, args...)
			assert.Equal(t, exitRefused, s.code, args)
			assert.Contains(t, s.err, "is it another database")
			assert.NotContains(t, s.err, "Migrate", "that would make one there")
		}
		for _, breaks := range []string{`DROP TABLE {{schema}}.flows`, `ALTER TABLE {{schema}}.operations DROP COLUMN state`} {
			broken := server.Schema(t)
			require.NoError(t, server.open(t, broken, nil).Close())
			server.exec(t, broken, breaks)
			s := says(broken, "doctor")
			if s.code == exitRefused { // MySQL's journal looks for all tables first
				assert.Contains(t, s.err, "is it another database")
				continue
			}
			assert.Equal(t, exitFindings, s.code, breaks)
			assert.Contains(t, s.out, "fail  stats: the journal's content can't be read")
		}
	})
}

// Receipts in a database are listed, shown, counted and resolved as those in a file.
func TestReceiptsInADatabase(t *testing.T) { onEach(t, receiptsInDatabase) }

func receiptsInDatabase(t *testing.T, server server) {
	p := databaseWith(t, server)
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

// A list is compared with a journal in a database, and an object with a mark is looked for there.
func TestCompareInADatabase(t *testing.T) { onEach(t, compareInDatabase) }

func compareInDatabase(t *testing.T, server server) {
	p := databaseWith(t, server)
	_, args := listOf(t, "ch_1,,20.00,EUR", "ch_3,,20.00,EUR", "ch_9,a-lost-reference,1.00,EUR")
	s := p.runs(t, args...)
	require.Equal(t, exitDone, s.code, s.out+s.err)
	assert.Contains(t, s.out, "2 of 2 operations matched, 2 amounts compared")
	assert.Contains(t, s.out, "1 objects made before the first operation with an object", "nothing was recorded under Reconcile")
}
