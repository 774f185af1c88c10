package postgrestest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Cluster is a PostgreSQL server under test. The methods are safe for concurrent use, except those that start or stop
// the server.
type Cluster struct {
	bin, dir string // "" if it was started elsewhere
	user     string // that the programs run as; "" for the user of the test
	shell    string
	env      []string
	port     int
	url      string

	leash io.WriteCloser // closing it stops the server and removes its folder
	watch *exec.Cmd
}

// Option is a server setting.
type Option func(*settings)

type settings struct {
	conf    []string
	env     []string
	primary *Cluster
}

// Setting sets one of PostgreSQL's parameters from the beginning, as in postgresql.conf: Setting("fsync", "off").
func Setting(name, value string) Option {
	return func(s *settings) {
		s.conf = append(s.conf, name+" = '"+strings.ReplaceAll(value, "'", "''")+"'")
	}
}

// Env sets a variable in the environment of the server, such as LD_PRELOAD.
func Env(name, value string) Option {
	return func(s *settings) { s.env = append(s.env, name+"="+value) }
}

// StandbyOf makes the server a streaming standby of primary, which goes on. Promote makes it a primary.
func StandbyOf(primary *Cluster) Option {
	return func(s *settings) { s.primary = primary }
}

// Start starts a server for the test, and stops the server when the test ends. If there is no PostgreSQL, the test is
// skipped, or fails if ONCEWARD_POSTGRES=required.
func Start(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	c, err := start(opts)
	if err != nil {
		lacking(t, err)
	}
	t.Cleanup(c.end)
	return c
}

// New starts a server for a program instead of a test. It runs until Close or the process's end. If there is no
// PostgreSQL, the error says so.
func New(opts ...Option) (*Cluster, error) { return start(opts) }

// Close stops and removes a server that New started.
func (c *Cluster) Close() { c.end() }

var shared struct {
	once sync.Once
	c    *Cluster
	err  error
}

// Shared returns the server that all tests of a binary share: the server at ONCEWARD_POSTGRES_URL, or a server that
// starts once and ends with the process. Don't stop the server; take a Schema. Without PostgreSQL the test is skipped,
// or fails, like Start.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	shared.once.Do(func() {
		if given := os.Getenv("ONCEWARD_POSTGRES_URL"); given != "" {
			shared.c = &Cluster{url: given}
			return
		}
		shared.c, shared.err = start(nil)
	})
	if shared.err != nil {
		lacking(t, shared.err)
	}
	return shared.c
}

// errNone means that there are no programs to start a server with.
var errNone = errors.New("postgrestest: no PostgreSQL: neither PATH nor /usr/lib/postgresql has initdb, pg_ctl and postgres")

func lacking(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, errNone) && os.Getenv("ONCEWARD_POSTGRES") != "required" {
		t.Skip(err)
	}
	t.Fatal(err)
}

// URL returns the address of the server, with an all-powerful role and its password.
func (c *Cluster) URL() string { return c.url }

// Addr returns the server's host and port, as for a proxy between the server and the clients.
func (c *Cluster) Addr() string {
	u, err := url.Parse(c.url)
	if err != nil {
		return ""
	}
	return u.Host
}

// URLThrough returns the URL for clients that reach the server by another host and port.
func (c *Cluster) URLThrough(addr string) string {
	u, err := url.Parse(c.url)
	if err != nil {
		return ""
	}
	u.Host = addr
	return u.String()
}

// Schema returns the name of a schema that no other test uses. It does not create the schema. If the server is that of
// ONCEWARD_POSTGRES_URL, the schema is removed when the test ends. Otherwise it goes with the server.
func (c *Cluster) Schema(t testing.TB) string {
	t.Helper()
	name := "t_" + strings.ToLower(rand.Text()[:12])
	if c.dir != "" { // the server's files are removed
		return name
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		conn, err := pgx.Connect(ctx, c.url)
		if err != nil {
			return
		}
		defer func() { _ = conn.Close(ctx) }()
		// A connection that is still in the schema delays only the removal.
		_, _ = conn.Exec(ctx, "SET lock_timeout = '5s'; SET client_min_messages = error; DROP SCHEMA IF EXISTS "+pgx.Identifier{name}.Sanitize()+" CASCADE")
	})
	return name
}

// Conn opens a connection with an all-powerful role. It is closed when the test ends.
func (c *Cluster) Conn(t testing.TB) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), c.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	})
	return conn
}

// Exec runs statements on a connection of its own.
func (c *Cluster) Exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.url)
	if err == nil {
		defer func() { _ = conn.Close(ctx) }()
		_, err = conn.Exec(ctx, sql, args...)
	}
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// How a server is stopped: see pg_ctl(1).
const (
	Fast      = "fast"      // it cuts off its clients, and writes everything to disk
	Immediate = "immediate" // it stops at once, and recovers at the next start
)

// Stop stops the server in this mode. Run starts it again at the same address.
func (c *Cluster) Stop(t testing.TB, mode string) {
	t.Helper()
	c.mine(t)
	if out, err := c.run("pg_ctl", "-D", c.data(), "-m", mode, "-w", "-t", "60", "stop"); err != nil {
		t.Fatalf("pg_ctl stop: %v: %s", err, out)
	}
}

// Run starts a server that was stopped or killed, at the same address.
func (c *Cluster) Run(t testing.TB) {
	t.Helper()
	c.mine(t)
	if err := c.up(); err != nil {
		t.Fatal(err)
	}
}

// Restart stops the server in the given mode and starts the server again.
func (c *Cluster) Restart(t testing.TB, mode string) {
	t.Helper()
	c.Stop(t, mode)
	c.Run(t)
}

// Kill9 kills the server's first process, as the kernel does when memory runs out. The other processes end by
// themselves. Run starts it again.
func (c *Cluster) Kill9(t testing.TB) {
	t.Helper()
	c.mine(t)
	pid, err := c.pid()
	if err == nil {
		var process *os.Process
		if process, err = os.FindProcess(pid); err == nil {
			err = process.Kill()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Promote makes a standby a primary.
func (c *Cluster) Promote(t testing.TB) {
	t.Helper()
	c.mine(t)
	if out, err := c.run("pg_ctl", "-D", c.data(), "-w", "-t", "60", "promote"); err != nil {
		t.Fatalf("pg_ctl promote: %v: %s", err, out)
	}
}

// Log returns the server's log since the first start.
func (c *Cluster) Log(t testing.TB) string {
	t.Helper()
	c.mine(t)
	log, err := os.ReadFile(c.logFile())
	if err != nil {
		t.Fatal(err)
	}
	return string(log)
}

// mine fails the test if c is the server of ONCEWARD_POSTGRES_URL. No test may stop the server, or read the server's
// log.
func (c *Cluster) mine(t testing.TB) {
	t.Helper()
	if c.dir == "" {
		t.Fatal("postgrestest: the server of ONCEWARD_POSTGRES_URL is not stopped or looked into: Start one")
	}
}

func (c *Cluster) data() string    { return filepath.Join(c.dir, "data") }
func (c *Cluster) logFile() string { return filepath.Join(c.dir, "log") }

func (c *Cluster) pid() (int, error) {
	lines, err := os.ReadFile(filepath.Join(c.data(), "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(lines), "\n")
	return strconv.Atoi(first)
}

func start(opts []Option) (*Cluster, error) {
	var s settings
	for _, opt := range opts {
		opt(&s)
	}
	c, err := newCluster()
	if err != nil {
		return nil, err
	}
	if err := c.make(s); err != nil {
		c.end()
		return nil, err
	}
	return c, nil
}

// newCluster makes a Cluster with an empty folder.
func newCluster() (*Cluster, error) {
	bin := programs()
	if bin == "" {
		return nil, errNone
	}
	dir, err := os.MkdirTemp("", "onceward-pg-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{bin: bin, dir: dir}
	if err := c.hold(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return c, nil
}

// model is a server that never starts. The process's servers are copies of a template, since a copy takes a tenth of
// the time of initdb. It is removed with the process.
var model = sync.OnceValues(func() (*Cluster, error) {
	c, err := newCluster()
	if err != nil {
		return nil, err
	}
	if err := c.initialise(); err != nil {
		c.end()
		return nil, err
	}
	return c, nil
})

// copyModel makes the server a copy of the model.
func (c *Cluster) copyModel() error {
	m, err := model()
	if err != nil {
		return err
	}
	if out, err := c.run("/bin/cp", "-Rp", m.data(), c.data()); err != nil {
		return fmt.Errorf("cp: %w: %s", err, out)
	}
	c.url, err = at(m.url, c.port)
	return err
}

// at returns a server's URL at another port.
func at(server string, port int) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	u.Host = fmt.Sprintf("127.0.0.1:%d", port)
	return u.String(), nil
}

// make makes the server and starts it.
func (c *Cluster) make(s settings) error {
	var err error
	if c.port, err = FreePort(); err != nil {
		return err
	}
	if s.primary != nil {
		if out, err := c.run("pg_basebackup", "-D", c.data(), "-R", "-X", "stream", "-c", "fast", "--no-sync", "-d", s.primary.url); err != nil {
			return fmt.Errorf("pg_basebackup: %w: %s", err, out)
		}
		if c.url, err = at(s.primary.url, c.port); err != nil {
			return err
		}
	} else if err := c.copyModel(); err != nil {
		return err
	}
	conf := append([]string{
		"listen_addresses = '127.0.0.1'", fmt.Sprintf("port = %d", c.port), "unix_socket_directories = ''", "max_connections = 200",
	}, s.conf...)
	file, err := os.OpenFile(filepath.Join(c.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString("\n" + strings.Join(conf, "\n") + "\n")
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	c.env = s.env
	return c.up()
}

// initialise makes a database cluster with one role.
func (c *Cluster) initialise() error {
	password := rand.Text()
	file := filepath.Join(c.dir, "password")
	if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
		return err
	}
	if err := c.give(file); err != nil {
		return err
	}
	out, err := c.run("initdb", "-D", c.data(), "-U", "onceward", "--pwfile", file, "-A", "scram-sha-256", "-E", "UTF8", "--locale=C", "--no-sync")
	if err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	u := url.URL{Scheme: "postgres", User: url.UserPassword("onceward", password), Path: "/postgres", RawQuery: "sslmode=disable"}
	c.url = u.String()
	return os.Remove(file)
}

// hold starts a process that waits for the end of this process, or for end, and cleans up. The holder runs as the
// server's user, to have the rights.
func (c *Cluster) hold() error {
	var err error
	if c.shell, err = exec.LookPath("sh"); err != nil {
		return errNone
	}
	if os.Geteuid() == 0 {
		c.user = "postgres"
		if _, err := user.Lookup(c.user); err != nil {
			return fmt.Errorf("%w that could be started: it refuses to run as root, and there is no user postgres", errNone)
		}
	}
	if err := c.give(c.dir); err != nil {
		return err
	}
	// A signal that the terminal sends to all processes is meant for the tests.
	script := "trap '' INT TERM HUP; cat >/dev/null; " + quoted(filepath.Join(c.bin, "pg_ctl"), "-D", c.data(), "-m", "immediate", "-w", "stop") +
		" >/dev/null 2>&1; rm -rf " + quoted(c.dir)
	c.watch = exec.Command(c.shell, "-c", script)
	if c.user != "" {
		c.watch = exec.Command("su", c.user, "-s", c.shell, "-c", script)
	}
	c.watch.Dir = "/"
	if c.leash, err = c.watch.StdinPipe(); err != nil {
		return err
	}
	return c.watch.Start()
}

// end stops the server and removes its files.
func (c *Cluster) end() {
	_ = c.leash.Close()
	_ = c.watch.Wait()
}

// give makes the user that runs the server the owner of a file.
func (c *Cluster) give(path string) error {
	if c.user == "" {
		return nil
	}
	u, err := user.Lookup(c.user)
	if err != nil {
		return err
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return err
	}
	return os.Chown(path, uid, gid)
}

// up starts the server. It tries for some seconds, since a killed server may have left files in the way.
func (c *Cluster) up() error {
	var out []byte
	var err error
	for range 20 {
		if out, err = c.run("pg_ctl", "-D", c.data(), "-l", c.logFile(), "-w", "-t", "60", "start"); err == nil {
			return nil
		}
		time.Sleep(250 * time.Millisecond)
	}
	log, _ := os.ReadFile(c.logFile())
	return fmt.Errorf("pg_ctl start: %w: %s%s", err, out, log[max(0, len(log)-2000):])
}

// run runs a PostgreSQL program, or a system program by its whole path, as a user with the rights. It returns the
// output.
func (c *Cluster) run(name string, args ...string) ([]byte, error) {
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(c.bin, name)
	}
	command := append([]string{path}, args...)
	if len(c.env) > 0 { // not for su
		command = slices.Concat([]string{"/usr/bin/env"}, c.env, command)
	}
	cmd := exec.Command(command[0], command[1:]...)
	if c.user != "" {
		cmd = exec.Command("su", c.user, "-s", c.shell, "-c", quoted(command...))
	}
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "PGCONNECT_TIMEOUT=10")
	// A file, since a server that keeps running would keep a pipe open.
	file, err := os.CreateTemp("", "onceward-pg-out-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close(); _ = os.Remove(file.Name()) }()
	cmd.Stdout, cmd.Stderr = file, file
	err = cmd.Run()
	out, _ := os.ReadFile(file.Name())
	return out, err
}

// quoted returns words quoted for a shell.
func quoted(words ...string) string {
	all := make([]string, 0, len(words))
	for _, w := range words {
		all = append(all, "'"+strings.ReplaceAll(w, "'", `'\''`)+"'")
	}
	return strings.Join(all, " ")
}

// places are the folders of PostgreSQL's programs that are not in PATH, on Debian, Red Hat and Homebrew.
var places = []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin"}

// programs returns the folder with PostgreSQL's programs: that in PATH, or the latest version's, or "" if there is
// none.
func programs() string {
	whole := func(dir string) bool {
		for _, name := range [...]string{"initdb", "pg_ctl", "postgres"} {
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
				return false
			}
		}
		return true
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil && whole(filepath.Dir(real)) {
			return filepath.Dir(real)
		}
	}
	var found []string
	for _, place := range places {
		dirs, _ := filepath.Glob(place) // the patterns are good
		found = append(found, slices.DeleteFunc(dirs, func(dir string) bool { return !whole(dir) })...)
	}
	if len(found) == 0 {
		return ""
	}
	return slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })
}

// version returns the first number in a path.
func version(dir string) int {
	digits := strings.FieldsFunc(dir, func(r rune) bool { return r < '0' || r > '9' })
	if len(digits) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(digits[0])
	return n
}

// reserved are the listeners that keep FreePort's ports from other processes. They live as long as this process.
var reserved sync.Map

// FreePort returns a free port of 127.0.0.1 for a server that a test stops and starts again, such as a pooler. Systems
// assign the port to no client, and no process that calls FreePort gets the port during this process's life: this
// process listens on the next port.
func FreePort() (int, error) {
	for range 100 {
		port := 15000 + 2*mathrand.IntN(8500)
		next, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+1))
		if err != nil {
			continue
		}
		free, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			_ = next.Close()
			continue
		}
		reserved.Store(port, next)
		return port, free.Close()
	}
	return 0, errors.New("postgrestest: no free port")
}
