package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// TestMain lets the test's binary run as the program that measure starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childCommand {
		if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestContendersKeepOperations(t *testing.T) {
	server := postgrestest.Start(t, postgrestest.Setting("fsync", "on"))
	d, err := newDatabase(t.Context(), server.URL(), time.Millisecond)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, d.close()) })
	const operations = 5
	for _, c := range contenders {
		t.Run(c.name, func(t *testing.T) {
			s, err := c.open(t.Context(), d.through, 4)
			require.NoError(t, err)
			for range operations {
				require.NoError(t, s.operation(t.Context()))
			}
			if later, ok := s.(settler); ok {
				require.NoError(t, later.settle(t.Context()))
			}
			require.NoError(t, s.close())
			s, err = c.open(t.Context(), d.direct, 4)
			require.NoError(t, err)
			n, err := s.has(t.Context())
			require.NoError(t, err)
			assert.Equal(t, operations, n)
			require.NoError(t, s.close())
		})
	}
	f, err := measure(t.Context(), d, nameNaive, 240, 4, 10*time.Millisecond)
	require.NoError(t, err, "processes share their connections out, of which the server has 200")
	assert.Positive(t, f.OpsPerSecond)
	u, err := d.used(t.Context())
	require.NoError(t, err)
	assert.Positive(t, u.wal)
	assert.Positive(t, u.cpu)

	var out strings.Builder
	require.NoError(t, claims(t.Context(), &database{direct: d.direct, through: d.direct, conn: d.conn, postmaster: d.postmaster}, options{claims: 250, repetitions: 2, runs: 100 * time.Millisecond}, &out))
	assert.Contains(t, out.String(), "claims of 250 due, each once")

	for i, c := range outboxes {
		t.Run(c.name, func(t *testing.T) {
			s, err := c.open(t.Context(), d.through, 4)
			require.NoError(t, err)
			for range operations {
				require.NoError(t, s.operation(t.Context()))
			}
			n, err := s.has(t.Context())
			require.NoError(t, err)
			assert.Equal(t, (i+1)*operations, n, "of all")
			require.NoError(t, s.close())
		})
	}
	for table, n := range map[string]int{"onceward.operations WHERE state = 1": operations, "river.river_job WHERE state = 'available'": operations} {
		var there int
		require.NoError(t, d.conn.QueryRow(t.Context(), "SELECT count(*) FROM "+table).Scan(&there))
		assert.Equal(t, n, there, table)
	}
}

func TestFiguresOfSeveralProcesses(t *testing.T) {
	ms := func(n ...int) (all []time.Duration) {
		for _, n := range n {
			all = append(all, time.Duration(n)*time.Millisecond)
		}
		return all
	}
	f, err := figuresOf([]report{{Times: ms(1, 2, 3, 4), Took: time.Second, CPU: 6 * time.Millisecond}, {Times: ms(5, 6), Took: 2 * time.Second}},
		used{cpu: 60 * time.Millisecond, wal: 600})
	require.NoError(t, err)
	assert.Equal(t, figures{OpsPerSecond: 5, P50: 3 * time.Millisecond, P99: 6 * time.Millisecond, DatabaseCPU: 10 * time.Millisecond,
		WAL: 100, CPU: time.Millisecond, Shares: 2}, f)
	_, err = figuresOf([]report{{}}, used{})
	require.Error(t, err)
}

func TestReportIsATableInMarkdown(t *testing.T) {
	o, err := parse([]string{"-callers", "1,64", "-processes", "1,4", "-only", "onceward,naive"})
	require.NoError(t, err)
	var out strings.Builder
	require.NoError(t, results{
		at{nameOnceward, 64, 4}: {OpsPerSecond: 300, P99: 12345678, DatabaseCPU: 20_000, CPU: 50_000, WAL: 2900, Shares: 1.15},
		at{nameOnceward, 64, 1}: {OpsPerSecond: 300},
		at{nameNaive, 64, 1}:    {OpsPerSecond: 200},
		at{nameNaive, 64, 4}:    {OpsPerSecond: 100, P99: 20_000_000, DatabaseCPU: 200_000, CPU: 140_000, WAL: 3300, Shares: 1},
	}.print(&out, o))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 6, "what was not measured is in no line")
	cells := regexp.MustCompile(` *\| *`)
	assert.Equal(t, "|4|64|onceward|300|0s|12.35ms|20µs|50µs|2.9 KB|1.15|||", cells.ReplaceAllString(lines[4], "|"))
	assert.Equal(t, "|4|64|naive|100|0s|20ms|200µs|140µs|3.3 KB|1.00|3.00 times|0.10 of its|", cells.ReplaceAllString(lines[5], "|"))
	assert.Contains(t, lines[3], "1.50 times (aim 1.4)", "it is that of one process")
}

func TestFlags(t *testing.T) {
	o, err := parse([]string{"-callers", "1, 64", "-only", "river,onceward", "-delay", "1ms"})
	require.NoError(t, err)
	assert.Equal(t, []int{1, 64}, o.callers)
	assert.Equal(t, []int{1, 4}, o.processes)
	assert.Equal(t, time.Millisecond, o.delay)
	require.Len(t, o.chosen, 2)
	assert.Equal(t, nameRiver, o.chosen[0].name)
	o, err = parse([]string{"-outbox", "-only", "enqueue"})
	require.NoError(t, err)
	require.Len(t, o.chosen, 1)
	for _, wrong := range [][]string{{"-callers", "0"}, {"-processes", "x"}, {"-only", "oracle"}} {
		_, err := parse(wrong)
		require.Error(t, err)
	}
}
