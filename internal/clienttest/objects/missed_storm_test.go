//go:build unix

package objects_test

import (
	"context"
	"database/sql"
	"encoding/pem"
	"errors"
	"io"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/internal/soak"
)

// dooms are the points at which a process kills itself, with a bound of how often it passes each before.
var dooms = []oncetest.Doom{
	{At: oncetest.BeforeEvent(machine.EventBegin), Pass: 12},
	{At: oncetest.AfterEvent(machine.EventBegin), Pass: 12},
	{At: oncetest.BeforeEvent(machine.EventComplete), Pass: 12},
	{At: oncetest.AfterEvent(machine.EventComplete), Pass: 12},
	{At: oncetest.BeforeEvent(machine.EventEvidence), Pass: 12},
	{At: oncetest.AfterEvent(machine.EventEvidence), Pass: 12},
	{At: inHandler, Pass: 8},
	{At: afterConsumed, Pass: 8},
	{At: beforeBookmark, Pass: 1},
	{At: afterBookmark, Pass: 1},
}

// A webhook receiver is down half of the time. Its processes are killed, and the event list is late, repeats and is
// out of order. The consumer handles each event once. The comparison afterwards finds nothing, and finds what is planted.
func TestStormOfMissedWebhooks(t *testing.T) {
	kills, seed := soak.Times(10, 100), soak.Seed(t, 1)
	const perLife = 10
	random := rand.New(rand.NewPCG(seed, 0))
	p := newProvider(t, seed)
	at, err := url.Parse(p.URL)
	require.NoError(t, err)
	l := life{
		Journal: filepath.Join(t.TempDir(), "journal.db"), Provider: at.Host, Began: p.now(),
		Roots: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw}),
	}
	struck := 0
	for n := range kills {
		l.Charges = p.made() + perLife
		l.Doom = dooms[n%len(dooms)]
		l.Doom.Pass = random.IntN(l.Doom.Pass)
		if l.lives(t, p, n%2 == 0) {
			struck++
		}
		p.advance(2*time.Minute + time.Duration(random.Int64N(int64(6*time.Minute))))
	}
	l.Doom = oncetest.Doom{}
	l.lives(t, p, true)         // makes the charges that are left
	p.advance(40 * time.Minute) // every event is listed, and old enough for a pass
	l.Last = true
	l.lives(t, p, false)
	p.Close()

	listed := l.booked(t, p)
	require.Len(t, p.charges, l.Charges)
	assert.GreaterOrEqual(t, p.lost(), l.Charges/4, "lost webhooks")
	t.Logf("%d events, %d kills (%d at a chosen point), %d webhooks lost (%d while the receiver was down), %d sent twice, %d out of order; "+
		"%d events listed late, %d repeated on another page, %d booked from the list", len(p.charges), kills+1, struck, p.lost(), p.down, p.twice, p.swapped, p.late, p.repeats, listed)
	t.Run("compared", func(t *testing.T) { compares(t, l.Journal, table(l.Provider), l.Began, p) })
}

// lives starts a process and waits until it is killed, or has ended as the last one does. It reports whether the process
// was killed at the point of its doom.
func (l *life) lives(t *testing.T, p *provider, up bool) (struck bool) {
	t.Helper()
	l.Offset = time.Until(p.now())
	ctx, cancel := context.WithTimeout(t.Context(), oncetest.PatienceOfAStorm)
	defer cancel()
	child, err := oncetest.StartChild(ctx, l)
	require.NoError(t, err)
	var address, done string
	err = child.Out.Decode(&address)
	if err == nil && up {
		p.receiver(address)
	}
	if err == nil {
		_, err = child.Stdin.Write([]byte{1})
	}
	if err == nil {
		err = child.Out.Decode(&done)
	}
	struck = errors.Is(err, io.EOF)
	if !l.Last {
		child.Kill()
	}
	killed, ended := child.End()
	require.NoError(t, ended)
	require.Equal(t, !l.Last, killed, "%v %s", err, &child.Stderr)
	p.receiver("")
	if struck {
		err = nil
	}
	require.NoError(t, err)
	return struck
}

// booked checks that the consumer handled each event once, and returns how many of them the list brought.
func (l *life) booked(t *testing.T, p *provider) (listed int) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: l.Journal}).EscapedPath()+"?mode=ro")
	require.NoError(t, err)
	defer db.Close()
	rows, err := db.Query("SELECT event, listed FROM booked")
	require.NoError(t, err)
	defer rows.Close()
	times := map[string]int{}
	for rows.Next() {
		var event string
		var fromList int
		require.NoError(t, rows.Scan(&event, &fromList))
		times[event]++
		listed += fromList
	}
	require.NoError(t, rows.Err())
	var lost, twice []string
	for _, c := range p.charges {
		switch times[c.event] {
		case 0:
			lost = append(lost, c.event)
		case 1:
		default:
			twice = append(twice, c.event)
		}
	}
	assert.Empty(t, strings.Join(lost, " "), "lost events")
	assert.Empty(t, strings.Join(twice, " "), "events that were handled twice")
	assert.Len(t, times, len(p.charges))
	return listed
}
