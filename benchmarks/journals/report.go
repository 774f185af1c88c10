package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// results holds the medians, by contender and caller count.
type results map[string]map[int]figures

func (r results) set(name string, callers int, f figures) {
	if r[name] == nil {
		r[name] = map[int]figures{}
	}
	r[name][callers] = f
}

func (r results) get(name string, callers int) (figures, bool) {
	f, ok := r[name][callers]
	return f, ok
}

// printFigures writes a line for each contender at each caller count.
func (r results) printFigures(out io.Writer, callers []int) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "callers\tops/s\tp50\tp99\tCPU/op\tallocs/op\t  store\t")
	for _, n := range callers {
		for _, c := range contenders {
			if f, ok := r.get(c.name, n); ok {
				fmt.Fprintf(w, "%d\t%.0f\t%v\t%v\t%v\t%.1f\t  %s\t\n", n, f.OpsPerSecond, f.P50.Round(time.Microsecond), f.P99.Round(time.Microsecond), f.CPU.Round(100*time.Nanosecond), f.Allocations, c.name)
			}
		}
	}
	return w.Flush()
}

// aim is a ratio of our journal to another store, and how far it is to get.
type aim struct {
	what     string
	us, them string
	callers  int
	of       func(figures) float64
	target   float64
	atMost   bool // the ratio is to stay below the target
}

func throughput(f figures) float64 { return f.OpsPerSecond }
func tail(f figures) float64       { return float64(f.P99) }

var aims = []aim{
	{"ops/s ÷ naive", nameOnceward, nameNaive, 1, throughput, 0.65, false},
	{"ops/s ÷ naive", nameOnceward, nameNaive, 8, throughput, 2, false},
	{"ops/s ÷ naive", nameOnceward, nameNaive, 64, throughput, 3, false},
	{"ops/s ÷ naive", nameOnceward, nameNaive, 256, throughput, 4, false},
	{"ops/s sealed ÷ clear", nameSealed, nameOnceward, 64, throughput, 0.9, false},
	{"p99 ÷ naive's", nameOnceward, nameNaive, 64, tail, 0.35, true},
}

// printAims writes how far the ratios got.
func (r results) printAims(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "callers\tmeasured\taim\t\t  ratio\t")
	for _, a := range aims {
		if ratio, ok := a.ratio(r); ok {
			fmt.Fprintf(w, "%d\t%.3g\t%s\t%s\t  %s\t\n", a.callers, ratio, a.bound(), a.verdict(ratio), a.what)
		}
	}
	return w.Flush()
}

func (a aim) ratio(r results) (float64, bool) {
	us, ours := r.get(a.us, a.callers)
	them, theirs := r.get(a.them, a.callers)
	if !ours || !theirs || a.of(them) == 0 {
		return 0, false
	}
	return a.of(us) / a.of(them), true
}

func (a aim) bound() string {
	if a.atMost {
		return fmt.Sprintf("≤ %.3g", a.target)
	}
	return fmt.Sprintf("≥ %.3g", a.target)
}

func (a aim) verdict(ratio float64) string {
	if a.atMost && ratio <= a.target || !a.atMost && ratio >= a.target {
		return "reached"
	}
	return "missed"
}
