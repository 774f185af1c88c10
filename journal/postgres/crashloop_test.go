package postgres_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/lifeline"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// crasherVariable names the operation that a child begins before it is killed.
const crasherVariable = "ONCEWARD_TEST_CRASHER"

// beginAndHang is the code of the child.
func beginAndHang(ctx context.Context, name string) error {
	j, err := postgres.Open(ctx, os.Getenv(directVariable), postgres.Options{Schema: os.Getenv(schemaVariable), Deployment: "test", Failover: postgres.MayLose})
	if err != nil {
		return err
	}
	s, err := j.Join(ctx)
	if err != nil {
		return err
	}
	if _, err := j.Apply(ctx, now(j, begin(name, s))); err != nil {
		return err
	}
	fmt.Println("begun")
	select {}
}

// crash runs a process that begins an operation, and kills it.
func crash(t *testing.T, server *postgrestest.Cluster, schema, name string) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), crasherVariable+"="+name, directVariable+"="+server.URL(), schemaVariable+"="+schema)
	child.Stderr = os.Stderr
	require.NoError(t, lifeline.Tie(child))
	told, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	line, err := bufio.NewReader(told).ReadString('\n')
	assert.NoError(t, child.Process.Kill())
	_ = child.Wait()
	require.NoError(t, err)
	require.Equal(t, "begun", strings.TrimSpace(line))
}

// A process that crashes again and again buries no live session, and does not prevent burials. Other processes claim
// its operations while it goes on crashing.
func TestCrashLoop(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	j := open(t, server, opts)
	s := join(t, j)
	c := work(t.Context(), j, "op", 2)
	claimed := map[string]bool{}
	crashes := 0
	for len(claimed) == 0 {
		require.Less(t, crashes, 1000, "what the first one held is claimed while others crash")
		crash(t, server, opts.Schema, fmt.Sprint("crash-", crashes))
		crashes++
		time.Sleep(500 * time.Millisecond)
		got, err := j.Claim(t.Context(), now(j, machine.Event{Kind: machine.EventClaim, Session: s.ID()}), 100)
		require.NoError(t, err)
		for _, r := range got {
			if strings.HasPrefix(r.Operation.ID, "crash-") {
				claimed[r.Operation.ID] = true
			}
		}
	}
	t.Logf("after %d crashes, %d operations were claimed", crashes, len(claimed))
	assert.Contains(t, claimed, "crash-0")
	c.end()
	c.assertKept(t, j)
	assert.False(t, s.Lost())
}

// The database's clock leaps ahead by more than a lease, as after a failover to a machine with another time. No session
// is buried for it.
func TestDatabaseClockLeapsAhead(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	var fleet []*callers
	for i := range 3 {
		fleet = append(fleet, work(t.Context(), open(t, server, opts), fmt.Sprint("pod-", i), 2))
	}
	rounds := time.NewTicker(time.Second)
	defer rounds.Stop()
	for range 6 { // two regular beats, besides those that follow a refusal
		for _, c := range fleet {
			assert.True(t, c.until(within(t, 20*time.Second), 10))
		}
		// For the sessions that wrote them, leases end sooner by as much as the clock is ahead.
		server.Exec(t, `UPDATE "`+opts.Schema+`".sessions SET expires_at = expires_at - interval '20 seconds' WHERE expires_at > clock_timestamp()`)
		<-rounds.C
	}
	endAll(t, fleet)
	conn := server.Conn(t)
	assert.Equal(t, "0", setting(t, conn, `SELECT count(*)::text FROM "`+opts.Schema+`".sessions WHERE buried_at IS NOT NULL AND id = process`))
}
