package postgres_test

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// pooler is a PgBouncer in transaction mode before a server.
type pooler struct {
	t      *testing.T
	config string
	url    string
	cmd    *exec.Cmd
}

// behindPgBouncer starts a pooler with that many connections to a running server. Without PgBouncer the test is
// skipped, or fails if PostgreSQL is required.
func behindPgBouncer(t *testing.T, serversURL string, connections int) *pooler {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer" // Debian's folder, which is only in root's PATH
		if _, err := os.Stat(program); err != nil {
			if os.Getenv("ONCEWARD_POSTGRES") == "required" {
				t.Fatal("no PgBouncer: it is neither in PATH nor in /usr/sbin")
			}
			t.Skip("no PgBouncer: it is neither in PATH nor in /usr/sbin")
		}
	}
	at, err := url.Parse(serversURL)
	require.NoError(t, err)
	password, _ := at.User.Password()
	port, err := postgrestest.FreePort()
	require.NoError(t, err)
	folder, err := os.MkdirTemp("", "onceward-pooler-") // only root may enter t.TempDir, and PgBouncer gives up root's rights
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	require.NoError(t, os.Chmod(folder, 0o755))
	p := &pooler{t: t, config: filepath.Join(folder, "pgbouncer.ini")}
	require.NoError(t, os.WriteFile(p.config, fmt.Appendf(nil, `[databases]
postgres = host=%s port=%s dbname=postgres user=onceward password=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = %d
max_client_conn = 500
query_wait_timeout = 5
server_login_retry = 1
`, at.Hostname(), at.Port(), password, port, connections), 0o644))
	at.User, at.Host = url.User("onceward"), "127.0.0.1:"+strconv.Itoa(port)
	p.url = at.String()
	args := []string{"-q", p.config}
	if os.Geteuid() == 0 { // it refuses to run as root
		args = append([]string{"-u", "postgres"}, args...)
	}
	p.cmd = exec.Command(program, args...)
	p.start()
	t.Cleanup(p.kill)
	return p
}

func (p *pooler) start() {
	p.t.Helper()
	p.cmd = exec.Command(p.cmd.Path, p.cmd.Args[1:]...)
	require.NoError(p.t, p.cmd.Start())
	at, err := url.Parse(p.url)
	require.NoError(p.t, err)
	require.Eventually(p.t, func() bool {
		conn, err := net.Dial("tcp", at.Host)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, 10*time.Second, 10*time.Millisecond)
}

func (p *pooler) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// Behind a pooler in transaction mode, with fewer connections than its clients have, everything works as without it. A
// pooler that dies buries no session.
func TestBehindPgBouncer(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	pool := behindPgBouncer(t, server.URL(), 4)
	opts := durable(t, server)
	own := opts
	opts.Pooled, opts.Migrate = true, false
	openAt(t, server.URL(), own) // migrates, past the pooler
	var fleet []*callers
	for i := range 3 {
		fleet = append(fleet, work(t.Context(), openAt(t, pool.url, opts), fmt.Sprint("pod-", i), 8))
	}
	for range soak.Times(1, 3) {
		for _, c := range fleet {
			assert.True(t, c.until(within(t, 40*time.Second), 100), "it works")
		}
		pool.kill()
		pool.start()
	}
	server.Restart(t, postgrestest.Immediate)
	for _, c := range fleet {
		assert.True(t, c.until(within(t, 40*time.Second), 100), "it goes on")
	}
	j := openAt(t, pool.url, opts)
	claimed, err := j.Claim(t.Context(), now(j, machine.Event{Kind: machine.EventClaim, Session: join(t, j).ID()}), 10)
	require.NoError(t, err)
	assert.Empty(t, claimed, "nobody of them has died")
	endAll(t, fleet)
}

// PgBouncer answers by a broken protocol while the server behind it is down. The error says that the server may be down.
func TestPoolerWhoseServerIsDown(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	p := behindPgBouncer(t, server.URL(), 2)
	opts := options(t, server)
	opts.Pooled = true
	_ = open(t, server, opts) // makes the tables
	server.Stop(t, "immediate")
	_, err := postgres.Open(t.Context(), p.url, opts)
	require.ErrorContains(t, err, "SQLSTATE 08P01")
	require.ErrorContains(t, err, "is down or starting")
}
