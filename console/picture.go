package console

import (
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/journal"
)

// statePicture draws the states with each state's operation count. The style sheet has the colors.
func statePicture(s *journal.Stats) template.HTML {
	var b strings.Builder
	b.WriteString(`<svg class="states" viewBox="0 0 640 300" role="img" aria-labelledby="states-title">` +
		`<title id="states-title">The states of an operation, and how many are in each. The table has the same numbers.</title>` +
		`<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path d="M0 0L8 4L0 8z"/></marker></defs>`)
	for _, path := range []string{
		"M60 150H108", "M230 140H396", "M170 118V82", "M190 82V118", "M170 182V216", "M230 170L396 238", "M230 268Q312 300 394 268", "M230 236L396 166",
	} {
		fmt.Fprintf(&b, `<path class="way" d="%s" marker-end="url(#head)"/>`, path)
	}
	fmt.Fprintf(&b, `<text class="begin" x="8" y="154">begun</text>`)
	for _, box := range []struct {
		x, y       int
		key, words string
		n          int64
	}{
		{110, 118, "in_flight", "in flight", s.InFlight}, {110, 18, "pending", "pending", s.Pending}, {398, 118, "completed", "completed", completed(s)},
		{110, 216, "unknown", "unknown", s.Unknown}, {398, 216, "cancelled", "cancelled", s.Cancelled},
	} {
		fmt.Fprintf(&b, `<a href="operations?state=%s"><g class="box %s"><rect x="%d" y="%d" width="120" height="64" rx="8"/>`+
			`<text class="name" x="%d" y="%d">%s</text><text class="count" data-count="%s" x="%d" y="%d">%s</text></g></a>`,
			box.key, box.key, box.x, box.y, box.x+60, box.y+24, box.words, box.key, box.x+60, box.y+50, grouped(box.n))
	}
	b.WriteString(`<text class="note" x="398" y="104">reaped ones included</text></svg>`)
	return template.HTML(b.String())
}

// windowPicture draws how much of an operation's window has passed, and its margin.
func windowPicture(w shown.Window, now time.Time) template.HTML {
	const width = 600
	whole := w.Forget.Sub(w.From)
	if whole <= 0 {
		return ""
	}
	x := func(at time.Time) int {
		return int(float64(width) * min(1, max(0, float64(at.Sub(w.From))/float64(whole))))
	}
	safe, at := x(w.Safe), x(now)
	class := "open"
	switch {
	case w.Left <= 0:
		class = "closed"
	case w.Share < shown.Closing:
		class = "closing"
	}
	label := "its key is remembered for " + shown.Duration(w.Left) + " more, for certain"
	if w.Left <= 0 {
		label = "its key may be forgotten"
	}
	anchor, from := "start", at
	if at > width/2 {
		anchor = "end"
	}
	return template.HTML(fmt.Sprintf(`<svg class="window %s" viewBox="-4 0 608 84" role="img" aria-labelledby="window-title"><title id="window-title">%s</title>`+
		`<rect class="safe" x="0" y="22" width="%d" height="18"/><rect class="margin" x="%d" y="22" width="%d" height="18"/><rect class="passed" x="0" y="22" width="%d" height="18"/>`+
		`<path class="now" d="M%d 16V46"/><text x="%d" y="12" text-anchor="%s">now: %s</text>`+
		`<text x="0" y="58">first sent</text><text x="%d" y="58" text-anchor="middle">resent until</text><text x="600" y="76" text-anchor="end">the provider may have forgotten it</text></svg>`,
		class, template.HTMLEscapeString(label), safe, safe, width-safe, at, at, from, anchor, template.HTMLEscapeString(label), min(safe, 560)))
}
