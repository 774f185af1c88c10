package main

import (
	"bytes"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/onceward/onceward/internal/shown"
)

// table is what people are shown. Cells are quoted for terminals by whoever makes them.
type table struct {
	now      time.Time
	relative bool // times, on a terminal
	colour   bool

	text  bytes.Buffer
	cells [][]string // not written yet
}

func (t *table) row(cells ...string) { t.cells = append(t.cells, cells) }

// line ends the table that there is, and prints a line.
func (t *table) line(s string) {
	t.flush()
	t.text.WriteString(s + "\n")
}

// fact is a row of a name and its value, which is left out where it is empty.
func (t *table) fact(name, value string) {
	if value != "" {
		t.row(name, value)
	}
}

// time is a time as it is shown: how far away on a terminal, else RFC 3339.
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

// painted is a word in a colour, which says no more than the word does.
func (t *table) painted(word, escape string) string {
	if !t.colour {
		return word
	}
	return "\x1b[" + escape + "m" + word + "\x1b[0m"
}
