package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// results holds the medians, by contender.
type results map[string]figures

// printFigures writes a line for each contender.
func (r results) printFigures(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "engine\tflows/s\tp50\tp99\tCPU/flow\tcommits/flow\t")
	for _, c := range contenders {
		if f, ok := r[c.name]; ok {
			fmt.Fprintf(w, "%s\t%.0f\t%v\t%v\t%v\t%.2f\t%s\n", c.name, f.FlowsPerSecond,
				f.P50.Round(100*time.Microsecond), f.P99.Round(100*time.Microsecond), f.CPU.Round(time.Microsecond), f.Commits, c.describe())
		}
	}
	return w.Flush()
}

// target is how many times the flows of the best peer we are to run.
const target = 3

// best is the fastest of the measured peers; "": there is none.
func (r results) best() (name string) {
	for _, peer := range peers {
		if f, ok := r[peer]; ok && f.FlowsPerSecond > r[name].FlowsPerSecond {
			name = peer
		}
	}
	return name
}

// printAim writes how far we are ahead of the best peer.
func (r results) printAim(out io.Writer) error {
	us, measured := r[nameOnceward]
	best := r.best()
	if !measured || best == "" {
		return nil
	}
	ratio, verdict := us.FlowsPerSecond/r[best].FlowsPerSecond, "missed"
	if ratio >= target {
		verdict = "reached"
	}
	_, err := fmt.Fprintf(out, "flows/s ÷ the best of the others (%s): %.3g (aim ≥ %d: %s)\n", best, ratio, target, verdict)
	return err
}
