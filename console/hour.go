package console

import (
	"context"
	"fmt"
	"html/template"
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/journal"
)

// Hour holds a journal's last hour in memory, by the minute: waiting operations and commit times. The zero Hour
// is ready. It is safe for concurrent use.
type Hour struct {
	mu      sync.Mutex
	minutes [60]minute
}

// minute has one minute's greatest values.
type minute struct {
	at      time.Time // its beginning
	read    bool      // counts were read in it
	open    int64     // operations without an outcome that are not unknown
	due     int64
	unsaved int64 // records only in this process's memory
	commits int
	slowest time.Duration
}

// watchEvery is how often Watch reads counts.
const watchEvery = 15 * time.Second

// Committed notes a commit. Use it as the journal's sqlite.Options.Committed, or call it from there.
func (h *Hour) Committed(_ int, took time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.minute(time.Now())
	m.commits++
	m.slowest = max(m.slowest, took)
}

// Watch reads the counts of a journal, and of a client in this process unless it is nil, four times a minute, until
// ctx ends. It returns ctx's error. A failed read leaves a gap. Without Watch, an Hour has the counts read while an
// operator looked.
func (h *Hour) Watch(ctx context.Context, j journal.StatsReader, client *onceward.Client) error {
	ticks := time.NewTicker(watchEvery)
	defer ticks.Stop()
	for {
		reading, cancel := context.WithTimeout(ctx, watchEvery)
		s, err := j.ReadStats(reading)
		cancel()
		if err == nil {
			h.Note(time.Now(), s, unsaved(client))
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// unsaved returns how many records are only in this process's memory.
func unsaved(client *onceward.Client) int64 {
	if client == nil {
		return 0
	}
	return int64(client.Stats().Backlog)
}

// Note notes counts read at a time, for programs that read them anyway. Watch calls it by itself. unsaved is the
// client's Stats.Backlog.
func (h *Hour) Note(at time.Time, s journal.Stats, unsaved int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.minute(at)
	m.read = true
	m.open, m.due, m.unsaved = max(m.open, s.Pending+s.InFlight), max(m.due, s.Due), max(m.unsaved, unsaved)
}

// minute returns a time's minute, or an unkept one if it is too long ago. h.mu is held. Once a clock that was
// ahead is right again, its minutes are replaced.
func (h *Hour) minute(of time.Time) *minute {
	at := of.Truncate(time.Minute)
	m := h.kept(at)
	switch {
	case at.Before(m.at) && !m.at.After(time.Now()):
		return new(minute)
	case !at.Equal(m.at):
		*m = minute{at: at}
	}
	return m
}

// kept returns a minute's place, if it is kept. h.mu is held.
func (h *Hour) kept(at time.Time) *minute {
	n := int64(len(h.minutes))
	return &h.minutes[(at.Unix()/60%n+n)%n] // a clock may be set to before 1970
}

// last returns the minutes up to now, oldest first. A minute without data is empty.
func (h *Hour) last(now time.Time) (all [60]minute) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range all {
		at := now.Truncate(time.Minute).Add(time.Duration(i+1-len(all)) * time.Minute)
		if m := h.kept(at); m.at.Equal(at) {
			all[i] = *m
		}
	}
	return all
}

// chart is a picture for one value in the last hour.
type chart struct {
	Title, Says string
	Picture     template.HTML
}

// charts returns the last hour's charts that have data.
func (h *Hour) charts(now time.Time, client bool) (all []chart) {
	minutes := h.last(now)
	draw := func(title, class string, show func(float64) string, value func(*minute) (v float64, known bool)) {
		values, most, latest, any := [60]float64{}, 0.0, 0.0, false
		for i := range minutes {
			v, known := value(&minutes[i])
			if values[i] = -1; known {
				values[i], latest, most, any = v, v, max(most, v), true
			}
		}
		if any {
			says := "at most " + show(most) + ", " + show(latest) + " last"
			all = append(all, chart{title, says, bars(class, title+", in the last hour: "+says, values[:], most)})
		}
	}
	number := func(v float64) string { return grouped(int64(v)) }
	counted := func(of func(*minute) int64) func(*minute) (float64, bool) {
		return func(m *minute) (float64, bool) { return float64(of(m)), m.read }
	}
	draw("Without an outcome", "open", number, counted(func(m *minute) int64 { return m.open }))
	draw("Due to be sent", "due", number, counted(func(m *minute) int64 { return m.due }))
	if client {
		draw("In this process's memory alone", "unsaved", number, counted(func(m *minute) int64 { return m.unsaved }))
	}
	draw("Slowest commit", "slowest", func(v float64) string { return shown.Duration(time.Duration(v)) },
		func(m *minute) (float64, bool) { return float64(m.slowest), m.commits > 0 })
	return all
}

// bars draws a bar for each minute with a value, which is below 0 if it is unknown. A small value stays visible.
func bars(class, label string, values []float64, most float64) template.HTML {
	const width, height = 5, 40
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="hour %s" viewBox="0 0 %d %d" role="img" aria-label="%s">`, class, width*len(values), height+2, template.HTMLEscapeString(label))
	for i, v := range values {
		if v < 0 {
			continue
		}
		tall := 1.0
		if v > 0 {
			tall = max(3, height*v/most)
		}
		fmt.Fprintf(&b, `<rect x="%d" y="%.1f" width="%d" height="%.1f"/>`, i*width, height-tall, width-1, tall)
	}
	fmt.Fprintf(&b, `<path class="ground" d="M0 %dH%d"/></svg>`, height+1, width*len(values))
	return template.HTML(b.String())
}
