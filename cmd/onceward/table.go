package main

import (
	"bytes"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/onceward/onceward/internal/shown"
)

// table is output for people. Its callers quote cells for terminals.
type table struct {
	now      time.Time
	relative bool // times, on a terminal
	colour   bool

	text  bytes.Buffer
	cells [][]string // not written yet
}

func (t *table) row(cells ...string) { t.cells = append(t.cells, cells) }

// line ends the present table, and prints a line.
func (t *table) line(s string) {
	t.flush()
	t.text.WriteString(s + "\n")
}

// fact adds a row with a name and its value, unless that is empty.
func (t *table) fact(name, value string) {
	if value != "" {
		t.row(name, value)
	}
}

// time formats a time: relative on a terminal, else RFC 3339.
func (t *table) time(at time.Time) string {
	switch {
	case at.IsZero():
		return ""
	case !t.relative:
		return at.UTC().Format(time.RFC3339)
	case at.After(t.now):
		return "in " + shown.Duration(at.Sub(t.now))
	}
	return shown.Duration(t.now.Sub(at)) + " ago"
}

// moment formats a time, if there is one.
func (t *table) moment(at *time.Time) string {
	if at == nil {
		return ""
	}
	return t.time(*at)
}

func (t *table) flush() {
	var widths []int
	for _, row := range t.cells {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range t.cells {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell)
			line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
		}
		t.text.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	t.cells = nil
}

func (t *table) writeTo(w io.Writer) error {
	t.flush()
	_, err := w.Write(t.text.Bytes())
	return err
}

// painted returns a word in a color, which adds no information.
func (t *table) painted(word, escape string) string {
	if !t.colour {
		return word
	}
	return "\x1b[" + escape + "m" + word + "\x1b[0m"
}
