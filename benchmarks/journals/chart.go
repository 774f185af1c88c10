package main

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// The chart's measures, in pixels.
const (
	chartWidth, chartHeight = 840, 440
	plotLeft, plotRight     = 76, 560
	plotTop, plotBottom     = 56, 384
)

// Colours of Okabe and Ito, which people with any colour vision can tell apart, on light and dark grounds.
var chartColours = []string{"#0072b2", "#56b4e9", "#d55e00", "#009e73", "#cc79a7", "#999999", "#e69f00"}

// drawChart writes the operations per second as an SVG: a line for each store, both axes logarithmic.
func (r results) drawChart(out io.Writer, callers []int, caption string) error {
	lowest, highest := math.Inf(1), 0.0
	for _, c := range contenders {
		for _, n := range callers {
			if f, ok := r.get(c.name, n); ok {
				lowest, highest = min(lowest, f.OpsPerSecond), max(highest, f.OpsPerSecond)
			}
		}
	}
	if highest <= 0 || lowest <= 0 {
		return fmt.Errorf("there is nothing to draw")
	}
	bottom, top := math.Floor(math.Log10(lowest)), math.Ceil(math.Log10(highest))
	if top == bottom {
		top++
	}
	x := func(i int) float64 {
		return plotLeft + float64(plotRight-plotLeft)*(float64(i)+0.5)/float64(len(callers))
	}
	y := func(ops float64) float64 {
		return plotBottom - float64(plotBottom-plotTop)*(math.Log10(ops)-bottom)/(top-bottom)
	}

	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="13">`+"\n", chartWidth, chartHeight)
	b.WriteString("<style>text { fill: #24292f } .grid { stroke: #8884; stroke-width: 1 } polyline { fill: none; stroke-width: 2.5 }\n" +
		"@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } }</style>\n")
	fmt.Fprintf(&b, `<text x="%d" y="24" font-size="16" font-weight="600">Durable operations per second, two commits each</text>`+"\n", plotLeft)
	fmt.Fprintf(&b, `<text x="%d" y="43" opacity="0.75">%s</text>`+"\n", plotLeft, escape(caption))
	for decade := bottom; decade <= top; decade++ {
		at := y(math.Pow(10, decade))
		fmt.Fprintf(&b, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`+"\n", plotLeft, plotRight, at, at)
		fmt.Fprintf(&b, `<text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", plotLeft-8, at+4, thousands(math.Pow(10, decade)))
	}
	for i, n := range callers {
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%d</text>`+"\n", x(i), plotBottom+20, n)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">callers, each with one operation at a time</text>`+"\n", (plotLeft+plotRight)/2, plotBottom+42)

	row := 0
	for i, c := range contenders {
		var points []string
		var last figures
		for at, n := range callers {
			if f, ok := r.get(c.name, n); ok {
				points = append(points, fmt.Sprintf("%.1f,%.1f", x(at), y(f.OpsPerSecond)))
				last = f
			}
		}
		if len(points) == 0 {
			continue
		}
		colour := chartColours[i%len(chartColours)]
		dash := ""
		if c.name == nameFloor {
			dash = ` stroke-dasharray="5 4"`
		}
		fmt.Fprintf(&b, `<polyline stroke="%s"%s points="%s"/>`+"\n", colour, dash, strings.Join(points, " "))
		for _, p := range points {
			cx, cy, _ := strings.Cut(p, ",")
			fmt.Fprintf(&b, `<circle cx="%s" cy="%s" r="3.5" fill="%s"/>`+"\n", cx, cy, colour)
		}
		at := plotTop + 12 + 26*row
		row++
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%d" y2="%d" stroke="%s" stroke-width="2.5"%s/>`+"\n", plotRight+14, plotRight+34, at-4, at-4, colour, dash)
		fmt.Fprintf(&b, `<text x="%d" y="%d">%s <tspan opacity="0.7">%s</tspan></text>`+"\n", plotRight+40, at, escape(c.name), thousands(last.OpsPerSecond))
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(out, b.String())
	return err
}

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}

// thousands writes 950, 12k or 1.3M.
func thousands(v float64) string {
	switch {
	case v >= 999_500:
		return fmt.Sprintf("%.3gM", v/1e6)
	case v >= 9_995:
		return fmt.Sprintf("%.0fk", v/1e3)
	case v >= 1000:
		return fmt.Sprintf("%.3gk", v/1e3)
	}
	return fmt.Sprintf("%.0f", v)
}
