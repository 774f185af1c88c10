package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// at is where figures belong in the table.
type at struct {
	name               string
	callers, processes int
}

type results map[at]figures

// aim is a ratio of our rate to another contender's, with one process.
type aim struct {
	name    string
	callers int
	delayed bool // a round trip takes a millisecond longer
	times   float64
}

var aims = []aim{
	{nameNaive, 1, false, 0.45},
	{nameNaive, 64, false, 1.4},
	{nameNaive, 256, false, 2.3},
	{nameNaive, 64, true, 1.3},
	{nameRiver, 64, false, 2},
}

// aimed is the aim for a line of the table, "" if it has none.
func aimed(line at, delayed bool) string {
	for _, a := range aims {
		if a.name == line.name && a.callers == line.callers && a.delayed == delayed && line.processes == 1 {
			return fmt.Sprintf(" (aim %v)", a.times)
		}
	}
	return ""
}

// print writes a line for each contender at each load, as a table in Markdown, with how far we are ahead at its end.
func (r results) print(out io.Writer, o options) error {
	w := tabwriter.NewWriter(out, 0, 0, 1, ' ', 0)
	fmt.Fprintln(w, "| processes\t| callers\t|\t| operations/s\t| p50\t| p99\t| database CPU an operation\t| client's CPU\t| WAL\t| busiest ÷ idlest\t| ours beside it\t| our database CPU\t|")
	fmt.Fprintln(w, "|---\t|---\t|---\t|---\t|---\t|---\t|---\t|---\t|---\t|---\t|---\t|---\t|")
	ours := nameOnceward
	if slices.ContainsFunc(o.chosen, func(c contender) bool { return c.name == nameEnqueue }) {
		ours = nameEnqueue
	}
	for _, processes := range o.processes {
		for _, callers := range o.callers {
			us, measured := r[at{ours, callers, processes}]
			for _, c := range o.chosen {
				f, ok := r[at{c.name, callers, processes}]
				if !ok {
					continue
				}
				rate, cpu := "", ""
				if measured && c.name != ours {
					rate = fmt.Sprintf("%.2f times%s", us.OpsPerSecond/f.OpsPerSecond, aimed(at{c.name, callers, processes}, o.delay > 0))
					cpu = fmt.Sprintf("%.2f of its", float64(us.DatabaseCPU)/float64(f.DatabaseCPU))
				}
				fmt.Fprintf(w, "| %d\t| %d\t| %s\t| %.0f\t| %v\t| %v\t| %v\t| %v\t| %.1f KB\t| %.2f\t| %s\t| %s\t|\n", processes, callers, c.name, f.OpsPerSecond,
					f.P50.Round(10*time.Microsecond), f.P99.Round(10*time.Microsecond), f.DatabaseCPU.Round(time.Microsecond), f.CPU.Round(time.Microsecond), f.WAL/1e3, f.Shares, rate, cpu)
			}
		}
	}
	return w.Flush()
}
