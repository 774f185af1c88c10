//go:build unix

package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/lifeline"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/internal/tempfiles"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/server"
)

// killSteps are the steps of a request. The test may kill the process after any of them.
var killSteps = []string{"called", "reserved", "written", "enqueued", "answering", "committed", "answered"}

const (
	childJournal = "ONCEWARD_SERVER_JOURNAL" // has the test binary be a child that serves
	childDies    = "ONCEWARD_SERVER_DIES"    // after so many steps; else it asks itself once, and waits at each step
)

func TestMain(m *testing.M) {
	lifeline.Follow()
	if path := os.Getenv(childJournal); path != "" {
		serve := child
		if os.Getenv(childProvider) != "" {
			serve = childAbroad
		}
		if err := serve(path); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(tempfiles.InMemory(m.Run))
}

// branch is a process of a service with a ledger and a provider's operation for each payment.
type branch struct {
	journal *sqlite.Journal
	handler http.Handler
}

// openLedger opens a journal with a ledger in its file.
func openLedger(ctx context.Context, path string) (*sqlite.Journal, error) {
	j, err := sqlite.Open(path, sqlite.Options{Volatile: true})
	if err != nil {
		return nil, err
	}
	tx, err := j.BeginSQL(ctx)
	if err == nil {
		_, err = tx.Exec("CREATE TABLE IF NOT EXISTS ledger (payment TEXT)")
	}
	if err == nil {
		err = tx.Commit()
	}
	return j, err
}

// newServer is a server of one tenant.
func newServer(ctx context.Context, j *sqlite.Journal, client *onceward.Client) (*server.Server, error) {
	return server.New(ctx, server.Options{
		Journal: j, Client: client, Secrets: [][]byte{[]byte("0123456789abcdef")}, Logger: slog.New(slog.DiscardHandler),
		Caller: func(*http.Request) (server.Caller, error) { return server.Caller{Tenant: "acme"}, nil },
	})
}

func openBranch(ctx context.Context, path string, step func(string)) (*branch, error) {
	j, err := openLedger(ctx, path)
	if err != nil {
		return nil, err
	}
	client, err := onceward.New(onceward.Config{
		Journal: j, Providers: []providers.Provider{providers.IETF(24*time.Hour, "ledger.example.com")}, Secret: []byte("0123456789abcdef"), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	s, err := newServer(ctx, j, nil)
	if err != nil {
		return nil, err
	}
	var n atomic.Int64
	handler := s.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		step("called")
		body, _ := io.ReadAll(r.Body)
		payment := string(body)
		tx, err := server.Tx(r.Context())
		if err != nil {
			return
		}
		step("reserved")
		_, err = tx.Exec("INSERT INTO ledger VALUES (?)", payment)
		step("written")
		if err == nil {
			err = enqueue(r.Context(), client, "https://ledger.example.com", payment)
		}
		step("enqueued")
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, "%s of %d-%d", payment, os.Getpid(), n.Add(1)) // another one each time
		step("answering")
	}), server.Endpoint{})
	return &branch{j, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(steppingWriter{w, step}, r) })}, nil
}

func enqueue(ctx context.Context, client *onceward.Client, provider, payment string) error {
	tx, err := server.JournalTx(ctx)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(onceward.WithOperation(ctx, payment), "POST", provider+"/charges", strings.NewReader(fmt.Sprintf("{%q:1}", payment)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	_, err = client.Enqueue(req.Context(), tx, req)
	return err
}

// steppingWriter reports the step at which the answer leaves, after its commit.
type steppingWriter struct {
	http.ResponseWriter
	step func(string)
}

func (w steppingWriter) WriteHeader(status int) {
	w.step("committed")
	w.ResponseWriter.WriteHeader(status)
}

func payment(h http.Handler, id string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "/payments", strings.NewReader(id))
	r.Header.Set("Idempotency-Key", "key-of-"+id)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// stepByStep prints each step, and waits for a line after it.
func stepByStep() func(step string) {
	in := bufio.NewScanner(os.Stdin)
	return func(step string) {
		fmt.Println(step)
		in.Scan()
	}
}

// child serves.
func child(path string) error {
	step := stepByStep()
	var left atomic.Int64
	dies, _ := strconv.ParseInt(os.Getenv(childDies), 10, 64)
	left.Store(dies)
	b, err := openBranch(context.Background(), path, func(at string) {
		if dies == 0 {
			step(at)
		} else if left.Add(-1) == 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	})
	switch {
	case err != nil:
		return err
	case dies == 0:
		payment(b.handler, "p-1")
		step("answered")
		return nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	return http.Serve(l, b.handler)
}

func startChild(t *testing.T, path string, dies int, variables ...string) (*exec.Cmd, *bufio.Scanner, io.Writer) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(append(os.Environ(), childJournal+"="+path, childDies+"="+strconv.Itoa(dies)), variables...)
	require.NoError(t, lifeline.Tie(cmd))
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	return cmd, bufio.NewScanner(out), in
}

// killAfter has a child go on until it has made the last of these steps, and kills it there.
func killAfter(t *testing.T, path string, steps []string, variables ...string) {
	t.Helper()
	cmd, out, in := startChild(t, path, 0, variables...)
	for i, step := range steps {
		require.True(t, out.Scan())
		require.Equal(t, step, out.Text())
		if i < len(steps)-1 {
			_, err := fmt.Fprintln(in)
			require.NoError(t, err)
		}
	}
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
}

// ledger lists the payments, operations and receipts in the file.
func (b *branch) ledger(t *testing.T) (payments, operations, receipts []string) {
	t.Helper()
	tx, err := b.journal.BeginSQL(t.Context())
	require.NoError(t, err)
	rows, err := tx.Query("SELECT payment FROM ledger")
	require.NoError(t, err)
	for rows.Next() {
		var p string
		require.NoError(t, rows.Scan(&p))
		payments = append(payments, p)
	}
	require.NoError(t, rows.Err())
	require.NoError(t, tx.Rollback())
	for op, err := range b.journal.List(t.Context(), journal.Filter{}) {
		require.NoError(t, err)
		operations = append(operations, op.ID)
	}
	for r, err := range b.journal.ListReceipts(t.Context(), journal.ReceiptFilter{}) {
		require.NoError(t, err)
		require.Equal(t, journal.ReceiptCompleted, r.State)
		receipts = append(receipts, strings.TrimPrefix(r.Key, "key-of-"))
	}
	found, err := b.journal.Verify(t.Context())
	require.NoError(t, err)
	require.Empty(t, found)
	return payments, operations, receipts
}

// A process that is killed after any step of a request leaves the whole request in the file, or nothing. A client
// that asks again gets the one answer.
func TestKilledAtEachStep(t *testing.T) {
	t.Parallel()
	for i, last := range killSteps {
		t.Run(last, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "branch.db")
			killAfter(t, path, killSteps[:i+1])

			var steps []string
			b, err := openBranch(t.Context(), path, func(step string) { steps = append(steps, step) })
			require.NoError(t, err)
			defer b.journal.Close()
			left := []string{"p-1"}
			if last != "committed" && last != "answered" {
				left = nil
			}
			check := func(want []string) {
				payments, operations, receipts := b.ledger(t)
				assert.Equal(t, want, payments)
				assert.Equal(t, want, operations)
				assert.Equal(t, want, receipts)
			}
			check(left)
			first := payment(b.handler, "p-1")
			assert.Equal(t, http.StatusCreated, first.Code)
			assert.Equal(t, left != nil, first.Header().Get("Idempotent-Replayed") == "true")
			assert.Equal(t, left == nil, slices.Contains(steps, "called"), "the handler is called if nothing was left")
			again := payment(b.handler, "p-1")
			assert.Equal(t, first.Body.String(), again.Body.String())
			assert.Equal(t, "true", again.Header().Get("Idempotent-Replayed"))
			check([]string{"p-1"})
		})
	}
}

// Two processes serve one file and are killed at any step. Their callers ask both until they are answered. Each
// payment is made once, and has one answer.
func TestKilledUnderCallers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "branch.db")
	random := rand.New(rand.NewPCG(soak.Seed(t, 36), 0))
	var mu sync.Mutex // of what follows
	kills, addresses, children := 0, make([]string, 2), make([]*exec.Cmd, 2)
	restart := func(i int, dead string) {
		mu.Lock()
		defer mu.Unlock()
		if addresses[i] != dead {
			return // another caller came first
		}
		if children[i] != nil {
			_ = children[i].Process.Kill()
			_ = children[i].Wait()
			kills++
		}
		cmd, out, _ := startChild(t, path, 1+random.IntN(40))
		if assert.True(t, out.Scan()) {
			children[i], addresses[i] = cmd, out.Text()
		}
	}
	address := func(i int) string {
		mu.Lock()
		defer mu.Unlock()
		return addresses[i]
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func(i int, id string) string {
		for {
			at := address(i)
			if at == "" {
				restart(i, at)
				continue
			}
			req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+at+"/payments", strings.NewReader(id))
			if err != nil {
				return err.Error()
			}
			req.Header.Set("Idempotency-Key", "key-of-"+id)
			got, err := client.Do(req)
			if err == nil {
				var body []byte
				body, err = io.ReadAll(got.Body)
				_ = got.Body.Close()
				if err == nil && got.StatusCode == http.StatusCreated {
					return string(body)
				}
			}
			if t.Context().Err() != nil {
				return "given up"
			}
			if err != nil {
				restart(i, at)
			}
		}
	}
	var want []string
	answers := map[string][2]string{}
	for n := 0; kills < soak.Times(6, 300); n++ {
		id := fmt.Sprint("p-", n)
		want = append(want, id)
		var both sync.WaitGroup
		var got [2]string
		for i := range got {
			both.Go(func() { got[i] = ask(i, id) })
		}
		both.Wait()
		answers[id] = got
	}
	for _, c := range children {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	b, err := openBranch(t.Context(), path, func(string) {})
	require.NoError(t, err)
	defer b.journal.Close()
	payments, operations, receipts := b.ledger(t)
	assert.ElementsMatch(t, want, payments)
	assert.ElementsMatch(t, want, operations)
	assert.ElementsMatch(t, want, receipts)
	for id, got := range answers {
		assert.Equal(t, got[0], got[1])
		assert.Equal(t, got[0], payment(b.handler, id).Body.String())
	}
	t.Logf("%d kills; %d payments, receipts %d, rows %d, operations %d, each with one answer", kills, len(want), len(receipts), len(payments), len(operations))
}
