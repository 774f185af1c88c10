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

// print writes a line for each contender at each load, and below it how far we are ahead.
func (r results) print(out io.Writer, o options) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "processes\tcallers\tops/s\tp50\tp99\tdatabase CPU/op\tWAL/op\tCPU/op\tshares\t  by\t")
	for _, processes := range o.processes {
		for _, callers := range o.callers {
			for _, c := range o.chosen {
				if f, ok := r[at{c.name, callers, processes}]; ok {
					fmt.Fprintf(w, "%d\t%d\t%.0f\t%v\t%v\t%v\t%.2f KB\t%v\t%.2f\t  %s\t\n", processes, callers, f.OpsPerSecond, f.P50.Round(10*time.Microsecond),
						f.P99.Round(10*time.Microsecond), f.DatabaseCPU.Round(time.Microsecond), f.WAL/1e3, f.CPU.Round(time.Microsecond), f.Shares, c.name)
				}
			}
		}
	}
	fmt.Fprintln(w)
	ours := nameOnceward
	if slices.ContainsFunc(o.chosen, func(c contender) bool { return c.name == nameEnqueue }) {
		ours = nameEnqueue
	}
	fmt.Fprintf(w, "processes\tcallers\tops/s\tdatabase CPU\t  %s ÷\t\n", ours)
	for _, processes := range o.processes {
		for _, callers := range o.callers {
			us, ok := r[at{ours, callers, processes}]
			for _, c := range o.chosen {
				them, theirs := r[at{c.name, callers, processes}]
				if ok && theirs && c.name != ours {
					fmt.Fprintf(w, "%d\t%d\t%.1f\t%.2f\t  %s\t\n", processes, callers, us.OpsPerSecond/them.OpsPerSecond,
						float64(us.DatabaseCPU)/float64(them.DatabaseCPU), c.name)
				}
			}
		}
	}
	return w.Flush()
}
