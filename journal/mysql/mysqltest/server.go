package mysqltest

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Server is a MariaDB or MySQL server under test. The methods are safe for concurrent use, except Stop, Run and Kill9.
type Server struct {
	dir  string // "" if it was started elsewhere
	args []string
	cfg  *mysql.Config
	db   *sql.DB

	origin  *Server // whose data it starts with; nil for a new server's
	service string  // the account of ServiceDSN; "" if it was started elsewhere

	process *exec.Cmd
	leash   io.WriteCloser // closing it kills the server and removes its folder
	watch   *exec.Cmd
}

// Option is a server setting.
type Option func(*Server)

// Setting sets a server variable from the beginning, as in a my.cnf: Setting("sync_binlog", "1").
func Setting(name, value string) Option {
	return func(s *Server) { s.args = append(s.args, "--"+name+"="+value) }
}

// Durable makes commits wait for the disk, as by MariaDB's defaults.
func Durable() Option {
	return func(s *Server) {
		s.args = append(s.args, "--innodb-flush-log-at-trx-commit=1", "--innodb-flush-method=fsync", "--debug-no-sync=OFF", "--innodb-doublewrite=ON")
	}
}

// CopyOf has a server begin with the data of another one, which is stopped.
func CopyOf(other *Server) Option {
	return func(s *Server) { s.origin = other }
}

// Start starts a server for a test, and stops the server when the test ends. Without MariaDB the test skips, or fails
// if ONCEWARD_MYSQL is "required".
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s, err := New(opts...)
	if err != nil {
		lacking(t, err)
	}
	t.Cleanup(s.Close)
	return s
}

var shared struct {
	once sync.Once
	s    *Server
	err  error
}

// Shared returns the server of all tests in this binary: the server that ONCEWARD_MYSQL_DSN names, or a new one that ends
// with the process. Don't stop it.
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.once.Do(func() {
		given := os.Getenv("ONCEWARD_MYSQL_DSN")
		if given == "" {
			shared.s, shared.err = New()
			return
		}
		cfg, err := mysql.ParseDSN(given)
		if err == nil {
			shared.s = &Server{cfg: cfg}
			err = shared.s.connect()
		}
		shared.err = err
	})
	if shared.err != nil {
		lacking(t, shared.err)
	}
	return shared.s
}

// errNone means that there are no programs to start a server with.
var errNone = errors.New("mysqltest: no MariaDB: neither PATH nor /usr/sbin has mariadbd and mariadb-install-db")

func lacking(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, errNone) && os.Getenv("ONCEWARD_MYSQL") != "required" {
		t.Skip(err)
	}
	t.Fatal(err)
}

// DSN returns the server's address with an all-powerful account and no database.
func (s *Server) DSN() string { return s.cfg.FormatDSN() }

// ServiceDSN returns the server's address with an account that has only the privileges that docs/mysql.md names, on the databases
// of Schema. A server that was started elsewhere has no such account.
func (s *Server) ServiceDSN() string {
	cfg := s.cfg.Clone()
	cfg.User = cmp.Or(s.service, cfg.User)
	return cfg.FormatDSN()
}

// DSNThrough returns the DSN for clients that reach the server by another host and port.
func (s *Server) DSNThrough(addr string) string {
	cfg := s.cfg.Clone()
	cfg.Addr = addr
	return cfg.FormatDSN()
}

// Addr returns the server's host and port.
func (s *Server) Addr() string { return s.cfg.Addr }

// DB returns the server's connections for a test's own statements. The caller does not close DB.
func (s *Server) DB() *sql.DB { return s.db }

// Exec runs statements one by one.
func (s *Server) Exec(t testing.TB, statement string, args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := s.db.ExecContext(ctx, statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// Schema returns the name of a database that no other test uses, and that does not exist yet. If the server is that of
// ONCEWARD_MYSQL_DSN, the database is removed when the test ends. Otherwise it goes with the server.
func (s *Server) Schema(t testing.TB) string {
	t.Helper()
	name := "t_" + strings.ToLower(rand.Text()[:12])
	if s.dir != "" { // the server's files are removed
		return name
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		conn, err := s.db.Conn(ctx)
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = conn.ExecContext(ctx, "SET SESSION lock_wait_timeout = 5") // a transaction that is still open delays only this
		_, _ = conn.ExecContext(ctx, "DROP DATABASE IF EXISTS `"+name+"`")
	})
	return name
}

// Sever ends all connections to the server but the test's own.
func (s *Server) Sever(t testing.TB) {
	t.Helper()
	rows, err := s.db.Query("SELECT id FROM information_schema.processlist WHERE user IN (?, ?) AND id <> CONNECTION_ID() AND (host LIKE '127.0.0.1:%' OR host LIKE 'localhost%')", s.cfg.User, s.service)
	if err != nil {
		t.Fatal(err)
	}
	var ids []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		_, _ = s.db.Exec("KILL " + strconv.FormatInt(id, 10)) // it may have ended meanwhile
	}
}

// Kill9 kills the server as the kernel does when memory runs out. Run starts the server again.
func (s *Server) Kill9(t testing.TB) {
	t.Helper()
	s.mine(t)
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
}

// Stop stops the server as an administrator does. Run starts the server again.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	s.mine(t)
	_ = s.process.Process.Signal(syscall.SIGTERM)
	_ = s.process.Wait()
}

// Run starts a server that was stopped or killed, at the same address.
func (s *Server) Run(t testing.TB) {
	t.Helper()
	s.mine(t)
	if err := s.up(); err != nil {
		t.Fatal(err)
	}
}

// mine fails the test if the server is another program's.
func (s *Server) mine(t testing.TB) {
	t.Helper()
	if s.dir == "" {
		t.Fatal("mysqltest: the server of ONCEWARD_MYSQL_DSN is not stopped: Start one")
	}
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// temporary is the server's own folder of temporary files: a server that starts removes those of others from a shared one.
func (s *Server) temporary() string { return filepath.Join(s.dir, "tmp") }

// New starts a server for a program instead of a test. The server runs until Close or the process's end.
func New(opts ...Option) (*Server, error) {
	s, err := newServer()
	if err != nil {
		return nil, err
	}
	for _, opt := range opts {
		opt(s)
	}
	if err := s.make(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// newServer makes a Server with an empty folder, which goes with this process.
func newServer() (*Server, error) {
	if program("mariadbd") == "" || program("mariadb-install-db") == "" {
		return nil, errNone
	}
	dir, err := os.MkdirTemp("", "onceward-my-")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir}
	if err := errors.Join(os.Chmod(dir, 0o711), os.Mkdir(s.temporary(), 0o700), os.Chmod(s.temporary(), 0o777), s.hold()); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// hold starts a process that waits for the end of this one, or for Close, and cleans up.
func (s *Server) hold() (err error) {
	// A signal that the terminal sends to all processes is meant for the tests.
	s.watch = exec.Command("sh", "-c", `trap '' INT TERM HUP; cat >/dev/null; kill -9 $(cat "$0/pid") 2>/dev/null; sleep 0.1; rm -rf "$0"`, s.dir)
	s.watch.Dir = "/"
	if s.leash, err = s.watch.StdinPipe(); err != nil {
		return err
	}
	return s.watch.Start()
}

// Close kills the server and removes its files.
func (s *Server) Close() {
	if s.db != nil {
		_ = s.db.Close()
	}
	if s.process != nil {
		_ = s.process.Process.Kill()
		_ = s.process.Wait()
	}
	if s.leash != nil {
		_ = s.leash.Close()
		_ = s.watch.Wait()
	}
}

// model is a data folder for copies. A copy takes less time than mariadb-install-db.
var model = sync.OnceValues(func() (*Server, error) {
	s, err := newServer()
	if err != nil {
		return nil, err
	}
	args := append([]string{"--no-defaults", "--datadir=" + s.data(), "--skip-test-db", "--auth-root-authentication-method=socket"}, asUser()...)
	install := exec.Command(program("mariadb-install-db"), args...)
	install.Env = append(os.Environ(), "TMPDIR="+s.temporary())
	if out, err := install.CombinedOutput(); err != nil {
		s.Close()
		return nil, fmt.Errorf("mariadb-install-db: %w: %s", err, out)
	}
	return s, nil
})

// password is the account's on each server of this process, so a client finds its way from one server to its replica.
var password = rand.Text()

// asUser is the option that names the user of the server. A server refuses to run as root.
func asUser() []string {
	if os.Geteuid() != 0 {
		return nil
	}
	return []string{"--user=mysql"}
}

func (s *Server) make() error {
	origin := s.origin
	if origin == nil {
		var err error
		if origin, err = model(); err != nil {
			return err
		}
	}
	if err := copyFolder(origin.data(), s.data()); err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	s.cfg = mysql.NewConfig()
	s.service = "service"
	s.cfg.User, s.cfg.Passwd, s.cfg.Net, s.cfg.Addr = "onceward", password, "tcp", fmt.Sprintf("127.0.0.1:%d", port)
	s.cfg.Logger = &mysql.NopLogger{}
	init := filepath.Join(s.dir, "init.sql")
	text := "SET sql_log_bin = 0;\nCREATE USER IF NOT EXISTS onceward@'127.0.0.1' IDENTIFIED BY '" + password + "';\nGRANT ALL ON *.* TO onceward@'127.0.0.1' WITH GRANT OPTION;\n" +
		"CREATE USER IF NOT EXISTS service@'127.0.0.1' IDENTIFIED BY '" + password + "';\nGRANT SELECT, INSERT, UPDATE, DELETE ON `t\\_%`.* TO service@'127.0.0.1';\n"
	if err := s.give(init, text); err != nil {
		return err
	}
	s.args = slices.Concat([]string{
		"--no-defaults", "--datadir=" + s.data(), "--tmpdir=" + s.temporary(), "--socket=" + filepath.Join(s.data(), "socket"), "--pid-file=" + filepath.Join(s.data(), "server.pid"), "--log-error=" + filepath.Join(s.data(), "log"),
		"--bind-address=127.0.0.1", fmt.Sprintf("--port=%d", port), "--skip-name-resolve", "--init-file=" + init, "--max-connections=500", "--performance-schema=OFF",
		"--innodb-buffer-pool-size=128M", "--innodb-log-file-size=96M", "--innodb-flush-log-at-trx-commit=2", "--innodb-doublewrite=OFF", "--innodb-flush-method=nosync", "--debug-no-sync", "--innodb-file-per-table=OFF",
	}, asUser(), s.args)
	return errors.Join(s.up(), s.connect())
}

func copyFolder(from, to string) error {
	if out, err := exec.Command("cp", "-Rp", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("cp: %w: %s", err, out)
	}
	return nil
}

// Save keeps the data of a stopped server. The returned function puts the data back into the server, which is stopped then.
func (s *Server) Save(t testing.TB) (restore func()) {
	t.Helper()
	s.mine(t)
	saved := filepath.Join(s.dir, "saved")
	if err := copyFolder(s.data(), saved); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := errors.Join(os.RemoveAll(s.data()), os.Rename(saved, s.data())); err != nil {
			t.Fatal(err)
		}
	}
}

// give writes a file that only the server's user can read.
func (s *Server) give(path, text string) error {
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil || os.Geteuid() != 0 {
		return err
	}
	u, err := user.Lookup("mysql")
	if err != nil {
		return err
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return err
	}
	return os.Chown(path, uid, -1)
}

func (s *Server) connect() (err error) {
	cfg := s.cfg.Clone()
	cfg.MultiStatements, cfg.InterpolateParams, cfg.Logger = true, true, &mysql.NopLogger{}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return err
	}
	s.db = sql.OpenDB(connector)
	s.db.SetMaxIdleConns(8)
	return nil
}

// up starts the server, and returns once the server answers.
func (s *Server) up() error {
	s.process = exec.Command(program("mariadbd"), s.args...)
	s.process.Dir = "/"
	if err := s.process.Start(); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.dir, "pid"), []byte(strconv.Itoa(s.process.Process.Pid)), 0o600); err != nil {
		return err
	}
	var err error
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
		if err = s.answers(); err == nil {
			return nil
		}
		if is := s.process.Process.Signal(syscall.Signal(0)); is != nil {
			break
		}
	}
	log, _ := os.ReadFile(filepath.Join(s.data(), "log"))
	return fmt.Errorf("mariadbd: %w: %s", err, log[max(0, len(log)-2000):])
}

func (s *Server) answers() error {
	connector, err := mysql.NewConnector(s.cfg)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return db.PingContext(ctx)
}

// program returns the path of a program in PATH or /usr/sbin, or "".
func program(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	if path := filepath.Join("/usr/sbin", name); exec.Command("test", "-x", path).Run() == nil {
		return path
	}
	return ""
}

// freePort returns a free port of 127.0.0.1 that systems assign to no client, and postgrestest.FreePort to no server.
func freePort() (int, error) {
	for range 100 {
		port := 10000 + mathrand.IntN(5000)
		free, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return port, free.Close()
		}
	}
	return 0, errors.New("mysqltest: no free port")
}
