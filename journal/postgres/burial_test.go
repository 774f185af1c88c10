package postgres_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/lifeline"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/pgproxy"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// outcome is the result that a caller got.
type outcome struct {
	r   machine.Result
	err error
}

// onItsWay applies an event to j. Its pipeline stops after that many bytes, and onItsWay returns once it has stopped.
func onItsWay(t *testing.T, p *pgproxy.Proxy, j *postgres.Journal, ev machine.Event, after int) (held *pgproxy.Fired, told chan outcome) {
	held, told = p.Arm(pgproxy.Fault{Match: isBatch, Side: pgproxy.Request, Byte: after, Then: pgproxy.Hold}), make(chan outcome, 1)
	go func() {
		r, err := j.Apply(t.Context(), now(j, ev))
		told <- outcome{r, err}
	}()
	<-held.Done()
	return held, told
}

// maySent reports whether a begin's result says that another process may have sent the operation before.
func maySent(taken machine.Result) bool {
	return taken.Decision != machine.Execute || taken.Operation.Found.MayHaveRun
}

// A session is buried while its process commits. Either the burying process sees the commit, or the commit has no
// effect. The burial comes before the guard, in the middle of a batch, or when all of it is on its way.
func TestSessionExpiresBetweenGuardAndCommit(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := durable(t, server)
	p, url := proxied(t, server)
	other := openAt(t, server.URL(), opts)
	theirs := join(t, other)
	for i, after := range []int{0, 600, 1200, pgproxy.End} {
		t.Run(fmt.Sprint("a begin, after ", after), func(t *testing.T) {
			j := openAt(t, url, opts)
			s := join(t, j)
			ev := begin(fmt.Sprint("begun-", i), s)
			held, told := onItsWay(t, p, j, ev, after)
			require.NoError(t, postgres.Bury(t.Context(), other, j, s))
			seen, err := other.Get(t.Context(), ev.Ref)
			there := err == nil
			if !there {
				require.ErrorIs(t, err, journal.ErrNotFound)
			}
			held.Release()
			is := <-told
			if is.err == nil {
				require.True(t, there, "it was acknowledged, and who buried did not see it")
				assert.Equal(t, seen.Handle, is.r.Operation.Handle)
			} else {
				require.ErrorIs(t, is.err, journal.ErrSessionLost)
			}
			taken, err := other.Apply(t.Context(), now(other, begin(ev.Ref.ID, theirs)))
			require.NoError(t, err)
			assert.Equal(t, there, maySent(taken), "what was not recorded nobody has sent")
			if there {
				assert.Equal(t, seen.Handle, taken.Operation.Handle)
			}
			_, err = j.Apply(t.Context(), now(j, begin("more", s)))
			require.ErrorIs(t, err, journal.ErrSessionLost)
		})
		t.Run(fmt.Sprint("an answer, after ", after), func(t *testing.T) {
			j := openAt(t, url, opts)
			s := join(t, j)
			begun, err := j.Apply(t.Context(), now(j, begin(fmt.Sprint("answered-", i), s)))
			require.NoError(t, err)
			held, told := onItsWay(t, p, j, complete(begun.Operation, s), after)
			require.NoError(t, postgres.Bury(t.Context(), other, j, s))
			seen, err := other.Get(t.Context(), begun.Operation.Ref)
			require.NoError(t, err)
			taken, err := other.Apply(t.Context(), now(other, begin(begun.Operation.ID, theirs)))
			require.NoError(t, err)
			if seen.State == journal.StateCompleted {
				assert.Equal(t, machine.Replay, taken.Decision)
			} else {
				assert.Equal(t, machine.Stop, taken.Decision, "it may have run, and what it was is not known to be repeated")
			}
			held.Release()
			is := <-told
			require.NoError(t, is.err, "an answer counts, whoever holds the operation")
			op, err := other.Get(t.Context(), begun.Operation.Ref)
			require.NoError(t, err)
			assert.Equal(t, journal.StateCompleted, op.State)
			assert.Equal(t, "paid "+op.ID, string(op.Answer.Body))
		})
	}
	violations, err := other.Verify(t.Context())
	require.NoError(t, err)
	assert.Empty(t, violations)
}

// sleeperVariable names the operation that a child begins. The child is stopped meanwhile.
const sleeperVariable = "ONCEWARD_TEST_SLEEPER"

// beginAndTell is the code of the child. It prints the result, and whether it would send.
func beginAndTell(ctx context.Context, name string) error {
	j, err := postgres.Open(ctx, os.Getenv(databaseVariable), postgres.Options{Schema: os.Getenv(schemaVariable), Deployment: "test", Failover: postgres.MayLose})
	if err != nil {
		return err
	}
	s, err := j.Join(ctx)
	if err != nil {
		return err
	}
	fmt.Println("joined")
	_, _ = fmt.Scanln() // until the test lets it go on
	begun, err := j.Apply(ctx, now(j, begin(name, s)))
	switch {
	case errors.Is(err, journal.ErrSessionLost):
		fmt.Println("refused")
	case err != nil:
		return err
	case begun.Decision == machine.Execute && !s.Lost():
		fmt.Println("sends")
	default:
		fmt.Println("leaves it", begun.Operation.Handle)
	}
	if _, err := j.Join(ctx); err != nil { // the process goes on
		return err
	}
	fmt.Println("joined again")
	return nil
}

// A process stands still for longer than its lease, with a commit in doubt, and is buried meanwhile. Whether the commit
// landed or not, the process sends nothing once it goes on. Others know of the operation if it was recorded.
func TestProcessStoppedDuringACommit(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := durable(t, server)
	other := openAt(t, server.URL(), opts)
	theirs := join(t, other)
	for _, fault := range []struct {
		name   string
		side   pgproxy.Side
		at     int
		then   pgproxy.Action
		landed bool
	}{
		{"its answer is late", pgproxy.Answer, 0, pgproxy.Hold, true},
		{"its answer is lost", pgproxy.Answer, 0, pgproxy.Drop, true},
		{"it arrives late", pgproxy.Request, 0, pgproxy.Hold, false},
		{"half of it arrives late", pgproxy.Request, 900, pgproxy.Hold, false},
		{"it never arrives", pgproxy.Request, 0, pgproxy.Cut, false},
	} {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			p, url := proxied(t, server)
			child := exec.CommandContext(t.Context(), os.Args[0])
			child.Env = append(os.Environ(), sleeperVariable+"="+fault.name, databaseVariable+"="+url, schemaVariable+"="+opts.Schema)
			child.Stderr = os.Stderr
			require.NoError(t, lifeline.Tie(child))
			out, err := child.StdoutPipe()
			require.NoError(t, err)
			in, err := child.StdinPipe()
			require.NoError(t, err)
			require.NoError(t, child.Start())
			defer func() {
				_ = child.Process.Kill()
				_ = child.Wait()
			}()
			told := bufio.NewScanner(out)
			require.True(t, told.Scan())
			require.Equal(t, "joined", told.Text())
			stopped := func(ex pgproxy.Exchange) bool { // before the fault, which the process would find out by another connection
				return isBatch(ex) && assert.NoError(t, child.Process.Signal(syscall.SIGSTOP))
			}
			held := p.Arm(pgproxy.Fault{Match: stopped, Side: fault.side, Byte: fault.at, Then: fault.then})
			_, err = fmt.Fprintln(in)
			require.NoError(t, err)
			<-held.Done()
			conn := server.Conn(t)
			require.Eventually(t, func() bool {
				return setting(t, conn, fmt.Sprintf(`SELECT count(*)::text FROM "%s".sessions WHERE pid = %d AND buried_at IS NULL`, opts.Schema, child.Process.Pid)) == "0"
			}, 4*soon, tick, "others bury it")
			taken, err := other.Apply(t.Context(), now(other, begin(fault.name, theirs)))
			require.NoError(t, err)
			assert.Equal(t, fault.landed, maySent(taken))
			require.NoError(t, child.Process.Signal(syscall.SIGCONT))
			held.Release()
			require.True(t, told.Scan())
			said := []string{"refused"}
			if fault.landed { // this also shows that others have changed it since
				said = append(said, fmt.Sprint("leaves it ", taken.Operation.Handle))
			}
			assert.Contains(t, said, told.Text())
			require.True(t, told.Scan())
			assert.Equal(t, "joined again", told.Text())
			op, err := other.Get(t.Context(), journal.Ref{ID: fault.name})
			require.NoError(t, err)
			assert.Equal(t, taken.Operation.Handle, op.Handle, "there is one of it")
			assert.Equal(t, taken.Operation.Holder, op.Holder)
		})
	}
}
