package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/address"
	"github.com/onceward/onceward/internal/lifeline"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/planted"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal/mysql"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
)

// applicationOf names, in the environment, the journal for a process that is an application.
const applicationOf = "ONCEWARD_TEST_APPLICATION"

// provider answers, and now and then cuts the connection, with or without having done its work.
type provider struct{ n atomic.Int64 }

func (p *provider) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_, _ = io.Copy(io.Discard, req.Body)
		_ = req.Body.Close()
	}
	if p.n.Add(1)%17 == 0 {
		return nil, errors.New("the connection was cut")
	}
	return &http.Response{
		StatusCode: 200, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(`{"id":"ch_1"}`)), Request: req,
	}, nil
}

// closer is a journal that an application opens.
type closer interface {
	machine.Store
	io.Closer
}

// application pays as fast as it can until its standard input ends. It prints each error that is not explained by the
// provider cutting a connection.
func application(name string) {
	var j closer
	var err error
	schema := os.Getenv("ONCEWARD_SCHEMA")
	switch address.Of(name) {
	case address.PostgreSQL:
		j, err = postgres.Open(context.Background(), name, postgres.Options{Schema: schema, Deployment: "test", Migrate: true})
	case address.MySQL:
		var dsn string
		if dsn, err = address.DSN(name); err == nil {
			j, err = mysql.Open(context.Background(), dsn, mysql.Options{Schema: schema, Deployment: "test", Migrate: true})
		}
	default:
		j, err = sqlite.Open(name, sqlite.Options{Volatile: true})
	}
	if err != nil {
		fmt.Println("noticed: open:", err)
		os.Exit(1)
	}
	table := providers.Raw(24*time.Hour, "api.example.com") // no guard, so a request whose answer was cut off is unknown
	client, err := onceward.New(onceward.Config{Journal: j, Providers: []providers.Provider{table}, HTTPClient: &http.Client{Transport: &provider{}}})
	if err != nil {
		fmt.Println("noticed: new:", err)
		os.Exit(1)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	var all sync.WaitGroup
	all.Go(func() { _ = client.Run(ctx) })
	for worker := range 4 {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				named := onceward.WithOperation(context.Background(), fmt.Sprintf("%d/%d/%d", os.Getpid(), worker, n))
				req, _ := http.NewRequestWithContext(named, http.MethodPost, "https://api.example.com/pay", strings.NewReader(`{"amount":1}`))
				resp, err := client.HTTPClient().Do(req)
				switch {
				case err == nil:
					_ = resp.Body.Close()
				case errors.Is(err, onceward.ErrOutcomeUnknown), errors.Is(err, onceward.ErrPending), errors.Is(err, onceward.ErrNotSent):
				default:
					fmt.Println("noticed:", err)
				}
				if n == 0 {
					fmt.Println("began")
				}
			}
		})
	}
	all.Wait()
	if err := errors.Join(client.Shutdown(context.Background()), j.Close()); err != nil {
		fmt.Println("noticed: close:", err)
	}
}

// running is an application that runs.
type running struct {
	cmd     *exec.Cmd
	in      io.Closer
	out     *bufio.Scanner
	noticed []string
}

func starts(t *testing.T, name string, env ...string) *running {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), applicationOf+"="+name), env...)
	cmd.Stderr = os.Stderr
	require.NoError(t, lifeline.Tie(cmd))
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	r := &running{cmd: cmd, in: in, out: bufio.NewScanner(out)}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	for r.out.Scan() && r.out.Text() != "began" {
		r.noticed = append(r.noticed, r.out.Text())
	}
	return r
}

// ends lets the application end by itself, or kills it, and returns the errors that it noticed.
func (r *running) ends(t *testing.T, kill bool) []string {
	t.Helper()
	if kill {
		require.NoError(t, r.cmd.Process.Kill())
	}
	require.NoError(t, r.in.Close())
	for r.out.Scan() {
		if r.out.Text() != "began" {
			r.noticed = append(r.noticed, r.out.Text())
		}
	}
	if err := r.cmd.Wait(); err != nil && !kill {
		r.noticed = append(r.noticed, err.Error())
	}
	return r.noticed
}

// The command does everything it can beside an application under load, and both are killed at random. The application
// notices nothing, no file is made or changes its owner, and the journal is sound.
func TestBesideAnApplication(t *testing.T) {
	path := filepath.Join(t.TempDir(), "payments.db")
	backups := t.TempDir()
	app := starts(t, path)
	before, err := os.Stat(path)
	require.NoError(t, err)
	random := rand.New(rand.NewPCG(soak.Seed(t, 1), 0))
	codes := map[int]int{}
	for round := range soak.Times(30, 120) {
		if round%40 == 39 {
			assert.Empty(t, app.ends(t, round%80 == 39))
			app = starts(t, path)
		}
		handle := fmt.Sprintf("#%d", 1+random.IntN(2000))
		every := [][]string{
			{"ls"}, {"ls", "--state", "unknown"}, {"attention"}, {"show", handle, "--reveal"}, {"why", handle}, {"flows"}, {"stats"},
			{"verify"}, {"backup", filepath.Join(backups, fmt.Sprint(round))}, {"doctor", "--bodies", "20"}, {"export"}, {"adopt", "--yes"},
			{"reap", "--keep", "2160h"},
			{"resolve", handle, "--executed", "--because", "a test", "--yes", "--seen", "0.1"}, {"resolve", handle, "--not-executed", "--because", "a test", "--yes", "--seen", "0.1"},
			{"resolve", handle, "--send-again", "--because", "a test", "--yes", "--seen", "0.1"}, {"cancel", handle, "--yes", "--seen", "0.1"},
			{"flow", "retry", "none"}, {"flow", "give-up", "none", "--because", "a test", "--yes"},
		}
		args := append([]string{"-j", path, "-o", "json"}, every[random.IntN(len(every))]...)
		ctx, cancel := t.Context(), context.CancelFunc(func() {})
		if random.IntN(2) == 0 {
			ctx, cancel = context.WithTimeout(ctx, time.Duration(random.IntN(80))*time.Millisecond)
		}
		s, err := try(ctx, "", args...)
		cancel()
		if ctx.Err() != nil || err != nil {
			continue // it was killed
		}
		codes[s.code]++
		assert.Contains(t, []int{exitDone, exitNotFound, exitRefused, exitFindings}, s.code, "%v: %s", args, s.err)
	}
	assert.Empty(t, app.ends(t, false))
	t.Logf("exit codes: %v", codes)

	// The application or this command may be killed while it writes the sidecar. The next Open removes the files that
	// this leaves.
	j, err := sqlite.Open(path, sqlite.Options{Volatile: true})
	require.NoError(t, err)
	found, err := j.Verify(t.Context())
	require.NoError(t, err)
	assert.Empty(t, found)
	require.NoError(t, j.Close())

	after, err := os.Stat(path)
	require.NoError(t, err)
	assert.True(t, os.SameFile(before, after), "the journal is the file that it was")
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	for _, e := range entries {
		known := false
		for _, suffix := range []string{"", "-wal", "-shm", "-sidecar"} {
			known = known || e.Name() == "payments.db"+suffix
		}
		assert.True(t, known || strings.HasPrefix(e.Name(), "payments.db-session-"), "%s was made", e.Name())
		info, err := e.Info()
		require.NoError(t, err)
		assert.Equal(t, fs.FileMode(0o600), info.Mode().Perm(), e.Name())
	}
}

// If no process has a journal open, verbs that only read leave its bytes as they are, and make no file beside it.
func TestReadingLeavesNoTrace(t *testing.T) {
	path, j := journalWith(t)
	require.NoError(t, j.Close())
	state := func() map[string]string {
		all := map[string]string{}
		entries, err := os.ReadDir(filepath.Dir(path))
		require.NoError(t, err)
		for _, e := range entries {
			text, err := os.ReadFile(filepath.Join(filepath.Dir(path), e.Name()))
			require.NoError(t, err)
			info, err := e.Info()
			require.NoError(t, err)
			all[e.Name()] = fmt.Sprint(info.ModTime(), info.Mode(), info.Sys().(*syscall.Stat_t).Uid, len(text), string(text))
		}
		return all
	}
	before := state()
	for name, args := range verbs {
		if name == "adopt" || name == "reap" {
			continue
		}
		s := runs(t, append([]string{"-j", path}, args...)...)
		assert.Contains(t, []int{exitDone, exitFindings}, s.code, "%s: %s", name, s.err)
		after := state()
		for file := range after {
			assert.Equal(t, before[file], after[file], "%s changed %s", name, file)
		}
	}
}

// A write to a journal that no process has open leaves no WAL beside it. A WAL in use stays as it is.
func TestWritingLeavesTheWALOfOthers(t *testing.T) {
	writes := func(path, id string) {
		t.Helper()
		s := runs(t, "-j", path, "resolve", id, "--executed", "--because", "seen", "--yes", "--seen", "0.1")
		require.Equal(t, exitDone, s.code, s.err)
	}
	wal := func(path string) (n int64) {
		n = -1
		if info, err := os.Stat(path + "-wal"); err == nil {
			n = info.Size()
		}
		return n
	}
	path, j := journalWith(t)
	require.NoError(t, j.Close())
	writes(path, planted.Unknown)
	assert.EqualValues(t, -1, wal(path))
	assert.NoFileExists(t, path+"-shm")

	sqlExec(t, path, "CREATE TABLE _litestream_seq (id INTEGER)")
	writes(path, planted.Long)
	left := wal(path)
	assert.Positive(t, left, "Litestream reads it")

	beside, j := journalWith(t) // which is open
	left = wal(beside)
	require.Positive(t, left)
	writes(beside, planted.Unknown)
	assert.GreaterOrEqual(t, wal(beside), left)
	require.NoError(t, j.Close())
}

// No verb makes a file if the journal's path is mistyped.
func TestMistypedPathMakesNoFile(t *testing.T) {
	dir := t.TempDir()
	all := [][]string{
		{"resolve", "x", "--executed", "--because", "y", "--yes", "--seen", "0.1"}, {"cancel", "x", "--yes", "--seen", "0.1"}, {"flow", "retry", "x"},
		{"backup", filepath.Join(dir, "copy")}, {"reap", "--keep", "2160h"},
	}
	for name, args := range verbs {
		if !strings.HasPrefix(name, "providers") && name != "version" {
			all = append(all, args)
		}
	}
	for _, args := range all {
		s := runs(t, append([]string{"-j", filepath.Join(dir, "payements.db")}, args...)...)
		assert.Equal(t, exitNotFound, s.code, "%v: %s", args, s.err)
		assert.Empty(t, s.out)
		assert.Contains(t, s.err, "there is no journal")
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, entries)
}

// A user who does not own the file is refused, even root. With --as-owner the command runs as the owner, and no file
// changes its owner.
func TestAnotherUserIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	const nobody = 65534
	path, j := journalWith(t)
	require.NoError(t, j.Close())
	dir := filepath.Dir(path)
	for _, d := range []string{dir, filepath.Dir(dir)} {
		require.NoError(t, os.Chmod(d, 0o755))
	}
	require.NoError(t, os.Chown(dir, nobody, nobody))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		require.NoError(t, os.Chown(filepath.Join(dir, e.Name()), nobody, nobody))
	}
	for _, args := range [][]string{{"ls"}, {"resolve", planted.Unknown, "--executed", "--because", "seen", "--yes", "--seen", "0.1"}} {
		s := runs(t, append([]string{"-j", path}, args...)...)
		assert.Equal(t, exitRefused, s.code)
		assert.Contains(t, s.err, "--as-owner")
		s = runs(t, append([]string{"-j", path, "--as-owner"}, args...)...)
		assert.Equal(t, exitDone, s.code, s.err)
	}
	entries, err = os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(t, err)
		assert.EqualValues(t, nobody, info.Sys().(*syscall.Stat_t).Uid, e.Name())
	}
}

// A journal from another release is refused as it is, and a database without a journal gets none.
func TestOtherFilesAreUnchanged(t *testing.T) {
	dir := t.TempDir()
	text, empty := filepath.Join(dir, "notes.txt"), filepath.Join(dir, "empty.db")
	require.NoError(t, os.WriteFile(text, []byte("no database at all"), 0o600))
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	newer, j := journalWith(t)
	require.NoError(t, j.Close())
	sqlExec(t, newer, "UPDATE onceward_head SET version = 99")
	for _, path := range []string{text, empty, newer, dir} {
		before, _ := os.ReadFile(path)
		for _, args := range [][]string{{"ls"}, {"flow", "retry", "x"}, {"verify"}} {
			s := runs(t, append([]string{"-j", path}, args...)...)
			assert.Equal(t, exitRefused, s.code, "%s %v: %s", path, args, s.err)
		}
		after, _ := os.ReadFile(path)
		assert.Equal(t, before, after, path)
	}
	assert.Equal(t, exitFindings, runs(t, "-j", newer, "doctor").code)
}
