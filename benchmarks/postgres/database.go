package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/pgproxy"
)

// database is the server under load, and the proxy before it, if there is one.
type database struct {
	direct     string
	through    string // the address that the contenders connect to
	proxy      *pgproxy.Proxy
	conn       *pgx.Conn
	postmaster int // pid
}

func newDatabase(ctx context.Context, direct string, delay time.Duration) (d *database, err error) {
	d = &database{direct: direct, through: direct}
	if d.conn, err = pgx.Connect(ctx, direct); err != nil {
		return nil, err
	}
	var backend int
	if err := d.conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&backend); err != nil {
		return nil, errors.Join(err, d.close())
	}
	if process, err := readProcess(backend); err != nil {
		return nil, errors.Join(err, d.close())
	} else {
		d.postmaster = process.parent
	}
	if delay > 0 {
		u, err := url.Parse(direct)
		if err == nil {
			d.proxy, err = pgproxy.Start("tcp", u.Host)
		}
		if err != nil {
			return nil, errors.Join(err, d.close())
		}
		d.proxy.Delay(delay)
		u.Host = d.proxy.Addr().String()
		d.through = u.String()
	}
	for _, c := range slices.Concat(contenders, outboxes) {
		if err := c.prepare(ctx, direct); err != nil {
			return nil, errors.Join(fmt.Errorf("the tables of %s: %w", c.name, err), d.close())
		}
	}
	return d, nil
}

// another makes a database with the name beside the first, and returns both addresses: directly and through the proxy.
func (d *database) another(ctx context.Context, name string) (direct, through string, err error) {
	if _, err := d.conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
		return "", "", err
	}
	var both [2]string
	for i, at := range []string{d.direct, d.through} {
		u, err := url.Parse(at)
		if err != nil {
			return "", "", err
		}
		u.Path = "/" + name
		both[i] = u.String()
	}
	return both[0], both[1], nil
}

func (d *database) close() error {
	var err error
	if d.proxy != nil {
		err = d.proxy.Close()
	}
	return errors.Join(err, d.conn.Close(context.Background()))
}

// describe writes what was measured on.
func (d *database) describe(ctx context.Context, out io.Writer, o options) error {
	var version, fsync, commit string
	if err := d.conn.QueryRow(ctx, "SELECT current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit')").
		Scan(&version, &fsync, &commit); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, d.through)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	const trips = 200
	began := time.Now()
	for range trips {
		if _, err := conn.Exec(ctx, "SELECT"); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(out, "PostgreSQL %s (fsync %s, synchronous_commit %s), %s, %d CPUs; a round trip takes %v; medians of %d interleaved runs of %v\n\n",
		version, fsync, commit, runtime.Version(), runtime.NumCPU(), (time.Since(began) / trips).Round(10*time.Microsecond), o.repetitions, o.runs)
	return err
}

// used is what the server has used so far.
type used struct {
	cpu time.Duration // of all its processes
	wal int64         // bytes
}

func (d *database) used(ctx context.Context) (u used, err error) {
	if err := d.conn.QueryRow(ctx, "SELECT pg_current_wal_insert_lsn() - '0/0'").Scan(&u.wal); err != nil {
		return u, err
	}
	u.cpu, err = d.cpu()
	return u, err
}

// cpu is the server processes' CPU time: the living ones, and the ended ones, which Linux counts for the
// parent.
func (d *database) cpu() (total time.Duration, err error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	for _, stat := range stats {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
		if err != nil {
			continue
		}
		switch p, err := readProcess(pid); {
		case errors.Is(err, os.ErrNotExist): // it has ended meanwhile
		case err == nil && p.pid == d.postmaster:
			total += p.own + p.children
		case err == nil && p.parent == d.postmaster:
			total += p.own
		}
	}
	if total == 0 {
		return 0, errors.New("the server's processes are not to be seen in /proc")
	}
	return total, nil
}

type process struct {
	pid, parent   int
	own, children time.Duration
}

// tick is the unit for times in /proc/*/stat: proc_pid_stat(5); 100 Hz on every Linux that Go compiles for.
const tick = time.Second / 100

func readProcess(pid int) (p process, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return p, err
	}
	_, after, _ := strings.Cut(string(stat), ") ") // PostgreSQL's names have no such thing in them
	fields := strings.Fields(after)
	if len(fields) < 15 {
		return p, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	number := func(field int) (n int) { // as proc_pid_stat(5) counts them
		n, err = strconv.Atoi(fields[field-3])
		return n
	}
	p = process{pid: pid, parent: number(4), own: time.Duration(number(14)+number(15)) * tick, children: time.Duration(number(16)+number(17)) * tick}
	return p, err
}

// checkpoint has no run pay for the one before it.
func (d *database) checkpoint(ctx context.Context) error {
	_, err := d.conn.Exec(ctx, "CHECKPOINT")
	return err
}

func execute(ctx context.Context, url, sql string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	return errors.Join(err, conn.Close(ctx))
}

func openPool(ctx context.Context, url string, connections int) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns, config.MinConns = int32(connections), int32(min(connections, 8))
	return pgxpool.NewWithConfig(ctx, config)
}
