package postgrestest_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// Committed rows are there after the server was killed, stopped at once, or restarted.
func TestServerComesBack(t *testing.T) {
	c := postgrestest.Start(t, postgrestest.Setting("work_mem", "5MB"))
	c.Exec(t, "CREATE TABLE kept (n int)")
	rows := 0
	for name, restart := range map[string]func(){
		"fast":      func() { c.Restart(t, postgrestest.Fast) },
		"immediate": func() { c.Restart(t, postgrestest.Immediate) },
		"kill -9":   func() { c.Kill9(t); c.Run(t) },
	} {
		c.Exec(t, "INSERT INTO kept VALUES (1)")
		rows++
		restart()
		var n int
		require.NoError(t, c.Conn(t).QueryRow(t.Context(), "SELECT count(*) FROM kept").Scan(&n), name)
		assert.Equal(t, rows, n, name)
	}
	var setting string
	require.NoError(t, c.Conn(t).QueryRow(t.Context(), "SHOW work_mem").Scan(&setting))
	assert.Equal(t, "5MB", setting)
	assert.Contains(t, c.Log(t), "database system is ready")
	assert.Contains(t, c.URLThrough("127.0.0.1:1"), "@127.0.0.1:1/")
	assert.Contains(t, c.URL(), "@"+c.Addr()+"/")
}

// A standby follows its primary, refuses to write, and takes over.
func TestStandbyTakesOver(t *testing.T) {
	primary := postgrestest.Start(t)
	primary.Exec(t, "CREATE TABLE kept (n int)")
	standby := postgrestest.Start(t, postgrestest.StandbyOf(primary))
	_, err := standby.Conn(t).Exec(t.Context(), "INSERT INTO kept VALUES (1)")
	require.ErrorContains(t, err, "25006")
	primary.Stop(t, postgrestest.Immediate)
	standby.Promote(t)
	standby.Exec(t, "INSERT INTO kept VALUES (1)")
}

// No other test gets a test's schema. On a server that was given, the schema is removed with its test.
func TestSchemaGoesWithItsTest(t *testing.T) {
	const address = "ONCEWARD_POSTGRES_URL"
	c := postgrestest.Shared(t)
	assert.Same(t, c, postgrestest.Shared(t))
	var name string
	t.Run("a test", func(t *testing.T) {
		name = c.Schema(t)
		assert.NotEqual(t, name, c.Schema(t))
		c.Exec(t, "CREATE SCHEMA "+pgx.Identifier{name}.Sanitize()+" CREATE TABLE kept (n int)")
	})
	var there bool
	require.NoError(t, c.Conn(t).QueryRow(t.Context(), "SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)", name).Scan(&there))
	assert.Equal(t, os.Getenv(address) == "", there)
	if os.Getenv(address) == "" {
		given := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
		given.Env = append(os.Environ(), address+"="+c.URL())
		out, err := given.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}

// A process that is killed leaves neither a server nor a folder.
func TestServerEndsWithItsProcess(t *testing.T) {
	if os.Getenv("ONCEWARD_TEST_CHILD") == "1" {
		t.Log("started " + postgrestest.Shared(t).Addr())
		process, err := os.FindProcess(os.Getpid())
		require.NoError(t, err)
		require.NoError(t, process.Kill())
		select {}
	}
	postgrestest.Shared(t)
	temporary, err := os.MkdirTemp("", "onceward-") // the user postgres can't enter t.TempDir
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(temporary) })
	require.NoError(t, os.Chmod(temporary, 0o777))
	child := exec.Command(os.Args[0], "-test.run", "^TestServerEndsWithItsProcess$", "-test.v")
	child.Env = append(os.Environ(), "ONCEWARD_TEST_CHILD=1", "ONCEWARD_POSTGRES_URL=", "TMPDIR="+temporary)
	out, err := child.CombinedOutput()
	require.Error(t, err, "it was killed")
	_, addr, _ := strings.Cut(string(out), "started 127.0.0.1:")
	require.NotEmpty(t, addr, string(out))
	require.Eventually(t, func() bool {
		left, err := os.ReadDir(temporary)
		return err == nil && len(left) == 0
	}, time.Minute, 50*time.Millisecond)
}

// Without PostgreSQL's programs a test is skipped with one line, or fails if they are required.
func TestWithoutProgramsItSkips(t *testing.T) {
	if os.Getenv("ONCEWARD_TEST_CHILD") == "2" {
		postgrestest.Shared(t)
		return
	}
	for required, want := range map[string]string{"": "SKIP", "required": "FAIL"} {
		child := exec.Command(os.Args[0], "-test.run", "^TestWithoutProgramsItSkips$", "-test.v")
		child.Env = append(os.Environ(), "ONCEWARD_TEST_CHILD=2", "ONCEWARD_POSTGRES_URL=", "ONCEWARD_POSTGRES="+required,
			"PATH=/nonexistent", "ONCEWARD_TEST_NOWHERE=1")
		out, _ := child.CombinedOutput()
		assert.Contains(t, string(out), "--- "+want+": TestWithoutProgramsItSkips")
		assert.Contains(t, string(out), "no PostgreSQL")
	}
}

// A server that was given by its URL is shared, and is not stopped.
func TestServerOfAnURLIsShared(t *testing.T) {
	if os.Getenv("ONCEWARD_TEST_CHILD") == "3" {
		c := postgrestest.Shared(t)
		c.Exec(t, "SELECT 1")
		c.Stop(t, postgrestest.Fast)
		return
	}
	c := postgrestest.Shared(t)
	child := exec.Command(os.Args[0], "-test.run", "^TestServerOfAnURLIsShared$", "-test.v")
	child.Env = append(os.Environ(), "ONCEWARD_TEST_CHILD=3", "ONCEWARD_POSTGRES_URL="+c.URL())
	out, _ := child.CombinedOutput()
	assert.Contains(t, string(out), "is not stopped or looked into")
	c.Exec(t, "SELECT 1")
}
