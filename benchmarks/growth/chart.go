package main

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// The chart's measures, in pixels.
const (
	width, height = 840, 380
	left, right   = 60, 520
	top, bottom   = 56, 320
)

// lines are the figures that are drawn, in colours of Okabe and Ito, which people with any colour vision can tell apart.
var lines = []struct {
	name, unit, colour string
	of                 func(figures) float64
}{
	{"p50", "µs", "#0072b2", func(f figures) float64 { return float64(f.P50) / 1e3 }},
	{"CPU an operation", "µs", "#d55e00", func(f figures) float64 { return float64(f.CPU) / 1e3 }},
	{"allocated an operation", "KB", "#009e73", func(f figures) float64 { return float64(f.Allocated) / 1e3 }},
	{"resident", "MiB", "#cc79a7", func(f figures) float64 { return float64(f.Resident) / (1 << 20) }},
}

// draw writes an SVG of all figures as multiples of the first of their series, on a logarithmic axis. A flat line means that
// a figure does not grow.
func draw(out io.Writer, all ...series) {
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="13">`+"\n", width, height)
	fmt.Fprint(out, "<style>text { fill: #24292f } .grid { stroke: #8884; stroke-width: 1 } polyline { fill: none; stroke-width: 2.5 }\n"+
		"@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } }</style>\n")
	fmt.Fprintf(out, `<text x="%d" y="24" font-size="16" font-weight="600">An operation beside pending ones, and over many providers</text>`+"\n", left)
	fmt.Fprintf(out, `<text x="%d" y="43" opacity="0.75">each figure as a multiple of the one on the left</text>`+"\n", left)
	doublings := 1.0 // that have room above 1; one below it has, too
	for _, s := range all {
		for _, l := range lines {
			for _, f := range s.Figures {
				doublings = max(doublings, math.Ceil(math.Log2(l.of(f)/l.of(s.Figures[0]))))
			}
		}
	}
	y := func(ratio float64) float64 {
		return bottom - (bottom-top)*(max(math.Log2(ratio), -1)+1)/(doublings+1)
	}
	for n := -1.0; n <= doublings; n++ {
		ratio := math.Pow(2, n)
		fmt.Fprintf(out, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`+"\n", left, right, y(ratio), y(ratio))
		fmt.Fprintf(out, `<text x="%d" y="%.1f" text-anchor="end">%g</text>`+"\n", left-8, y(ratio)+4, ratio)
	}
	row := 0
	for i, s := range all {
		x := func(at int) float64 { return left + float64(right-left)*(float64(at)+0.5)/float64(len(s.Sizes)) }
		for at, n := range s.Sizes {
			fmt.Fprintf(out, `<text x="%.1f" y="%d" text-anchor="middle">%d</text>`+"\n", x(at), bottom+20+17*i, n)
		}
		fmt.Fprintf(out, `<text x="%d" y="%d">%s</text>`+"\n", right+14, bottom+20+17*i, s.Name)
		for _, line := range lines {
			var points []string
			for at, f := range s.Figures {
				points = append(points, fmt.Sprintf("%.1f,%.1f", x(at), y(line.of(f)/line.of(s.Figures[0]))))
			}
			dash := ""
			if i > 0 {
				dash = ` stroke-dasharray="5 4"`
			}
			fmt.Fprintf(out, `<polyline stroke="%s"%s points="%s"/>`+"\n", line.colour, dash, strings.Join(points, " "))
			at := top + 8 + 26*row
			row++
			fmt.Fprintf(out, `<line x1="%d" x2="%d" y1="%d" y2="%d" stroke="%s" stroke-width="2.5"%s/>`+"\n", right+14, right+34, at-4, at-4, line.colour, dash)
			fmt.Fprintf(out, `<text x="%d" y="%d">%s <tspan opacity="0.7">%.0f to %.0f %s</tspan></text>`+"\n", right+40, at, line.name,
				line.of(s.Figures[0]), line.of(s.Figures[len(s.Figures)-1]), line.unit)
		}
	}
	fmt.Fprintln(out, "</svg>")
}
