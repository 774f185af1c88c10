//go:build unix

package sqlite_test

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// fault says how a statement fails.
type fault string

const (
	interruptedRead fault = "an interrupted read"
	interrupted     fault = "an interrupted statement" // SQLite rolls the transaction back if the statement writes
	refusedWrite    fault = "a refused write"          // SQLite leaves the rest of the transaction as it is
	refusedCommit   fault = "a refused commit"         // SQLite rolls the transaction back
)

// breaker makes single statements fail, of connections that are opened while it exists.
type breaker struct {
	sync.Mutex
	folder string // of the files whose connections it breaks; "" means all connections
	ended  bool   // its test has ended; only earlier connections still know it
	left   int    // how many more statements succeed, while it is armed
	armed  bool
	fault  fault  // it counts the statements that can fail so
	broke  string // the statement that failed

	begins func(statement string) // if not nil, called for each statement that begins, by its goroutine
}

// breakers has all breakers so far. A connection knows its breaker by its number.
var breakers struct {
	sync.Mutex
	numbered []*breaker
}

// newBreaker breaks all connections, until the end of the test. No other test may run beside it.
func newBreaker(t *testing.T) *breaker { return newBreakerIn(t, "") }

// newBreakerIn breaks the connections of files below a folder. It leaves tests that run beside it alone.
func newBreakerIn(t *testing.T, folder string) *breaker {
	t.Helper()
	b := new(breaker)
	if folder != "" {
		real, err := filepath.EvalSymlinks(folder)
		require.NoError(t, err)
		b.folder = real + string(filepath.Separator)
	}
	tls := libc.NewTLS()
	defer tls.Close()
	// It stays registered. Other breakers need it, and without a breaker it does nothing.
	require.EqualValues(t, sqlite3.SQLITE_OK, sqlite3.Xsqlite3_auto_extension(tls, pointerTo[extensionEntry](breakerEntry)))
	breakers.Lock()
	defer breakers.Unlock()
	breakers.numbered = append(breakers.numbered, b)
	t.Cleanup(func() {
		breakers.Lock()
		defer breakers.Unlock()
		b.ended = true
	})
	return b
}

// breakerOf is the breaker of a file's connections, with its number. Nil means that there is none.
func breakerOf(file string) (b *breaker, number uintptr) {
	breakers.Lock()
	defer breakers.Unlock()
	for i, is := range breakers.numbered {
		if !is.ended && (is.folder == "" || strings.HasPrefix(file, is.folder)) {
			return is, uintptr(i)
		}
	}
	return nil, 0
}

func numbered(number uintptr) *breaker {
	breakers.Lock()
	defer breakers.Unlock()
	return breakers.numbered[number]
}

// arm makes the statement fail that comes after n others.
func (b *breaker) arm(n int, by fault) {
	b.Lock()
	defer b.Unlock()
	b.left, b.fault, b.armed, b.broke = n, by, true, ""
}

// disarm returns the statement that failed, if one did.
func (b *breaker) disarm() string {
	b.Lock()
	defer b.Unlock()
	b.armed = false
	return b.broke
}

// meanwhile makes each statement that begins call f.
func (b *breaker) meanwhile(f func(statement string)) {
	b.Lock()
	defer b.Unlock()
	b.begins = f
}

// breaks counts a statement and reports whether it is to fail.
func (b *breaker) breaks(statement string, by fault) bool {
	b.Lock()
	defer b.Unlock()
	if !b.armed || b.fault != by || b.broke != "" {
		return false
	}
	b.left--
	if b.left < 0 {
		b.broke = statement
	}
	return b.left < 0
}

type (
	extensionEntry = func(tls *libc.TLS, db, message, api uintptr) int32
	traceCallback  = func(tls *libc.TLS, kind uint32, context, statement, text uintptr) int32
	function       = func(tls *libc.TLS, context uintptr, arguments int32, values uintptr)
	commitHook     = func(tls *libc.TLS, number uintptr) int32
)

func breakerEntry(tls *libc.TLS, db, _, _ uintptr) int32 {
	b, number := breakerOf(libc.GoString(sqlite3.Xsqlite3_db_filename(tls, db, 0)))
	if b == nil {
		return sqlite3.SQLITE_OK
	}
	name, err := libc.CString("refuses")
	if err != nil {
		return sqlite3.SQLITE_NOMEM
	}
	defer libc.Xfree(tls, name)
	if rc := sqlite3.Xsqlite3_create_function_v2(tls, db, name, 1, sqlite3.SQLITE_UTF8|sqlite3.SQLITE_INNOCUOUS, number, pointerTo[function](refuses), 0, 0, 0); rc != sqlite3.SQLITE_OK {
		return rc
	}
	sqlite3.Xsqlite3_commit_hook(tls, db, pointerTo[commitHook](refusesCommit), number)
	return sqlite3.Xsqlite3_trace_v2(tls, db, sqlite3.SQLITE_TRACE_STMT, pointerTo[traceCallback](breakOff), number)
}

// breakOff interrupts a statement that has just begun. It ends at its first jump.
func breakOff(tls *libc.TLS, _ uint32, number, statement, text uintptr) int32 {
	b := numbered(number)
	b.Lock()
	begins := b.begins
	b.Unlock()
	said := libc.GoString(text)
	if begins != nil {
		begins(said)
	}
	verb, _, _ := strings.Cut(said, " ")
	reads := verb == "SELECT" || said == "PRAGMA application_id"
	writes := verb == "INSERT" || verb == "UPDATE" || verb == "DELETE"
	if reads && b.breaks(said, interruptedRead) || (reads || writes) && b.breaks(said, interrupted) {
		sqlite3.Xsqlite3_interrupt(tls, sqlite3.Xsqlite3_db_handle(tls, statement))
	}
	return 0
}

func refusesCommit(_ *libc.TLS, number uintptr) int32 {
	if numbered(number).breaks("COMMIT", refusedCommit) {
		return 1
	}
	return 0
}

// refuses gets the verb and the table of a write.
func refuses(tls *libc.TLS, context uintptr, _ int32, values uintptr) {
	refused := int32(0)
	if numbered(sqlite3.Xsqlite3_user_data(tls, context)).breaks(libc.GoString(sqlite3.Xsqlite3_value_text(tls, *at[uintptr](values))), refusedWrite) {
		refused = 1
	}
	sqlite3.Xsqlite3_result_int(tls, context, refused)
}

// triggers makes triggers in a file ask the breaker about every write, until stop is called.
func (b *breaker) triggers(t *testing.T, path string) (stop func()) {
	t.Helper()
	other := anotherProcess(t, path)
	var create, drop []string
	rows, err := other.QueryContext(t.Context(), "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'onceward_%'")
	require.NoError(t, err)
	for rows.Next() {
		var table string
		require.NoError(t, rows.Scan(&table))
		for _, verb := range []string{"INSERT", "UPDATE", "DELETE"} {
			name := "refuse_" + verb + "_" + table
			create = append(create, "CREATE TRIGGER "+name+" BEFORE "+verb+" ON "+table+" WHEN refuses('"+verb+" "+table+"') BEGIN SELECT RAISE(ABORT, 'refused by the test'); END")
			drop = append(drop, "DROP TRIGGER "+name)
		}
	}
	require.NoError(t, rows.Err())
	require.NoError(t, rows.Close())
	run := func(statements []string) {
		_, err := other.ExecContext(t.Context(), "PRAGMA busy_timeout=60000; BEGIN IMMEDIATE; "+strings.Join(statements, ";")+"; COMMIT")
		require.NoError(t, err)
	}
	run(create)
	return func() { run(drop) }
}
