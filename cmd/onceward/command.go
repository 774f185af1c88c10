package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/seal"
)

// command is one command run.
type command struct {
	journal  string // a path or a URL
	keys     string // path to the file with the journal's keys
	ring     *seal.Ring
	schema   string // in a database
	pooled   bool   // there is a pooler before it
	form     string // table, json or jsonl
	timeout  time.Duration
	asOwner  bool
	fullKeys bool

	in       *bufio.Reader
	asks     bool // an operator can answer
	out, err io.Writer
	terminal bool // out is a terminal
	colour   bool
	now      func() time.Time
}

// result is a verb's output.
type result interface{ table(t *table) }

// lister is a result with entries: jsonl has a line for each.
type lister interface{ lines() []any }

func lines[T any](list []T) []any {
	out := make([]any, len(list))
	for i := range list {
		out[i] = list[i]
	}
	return out
}

// say prints a result on stdout, in the chosen form.
func (c *command) say(r result) error {
	switch c.form {
	case "json":
		return c.encode(r, "  ")
	case "jsonl":
		many, is := r.(lister)
		if !is {
			return c.encode(r, "")
		}
		for _, line := range many.lines() {
			if err := c.encode(line, ""); err != nil {
				return err
			}
		}
		return nil
	}
	t := &table{now: c.now(), relative: c.terminal, colour: c.colour}
	r.table(t)
	return t.writeTo(c.out)
}

// encode prints JSON and escapes everything that a terminal may interpret.
func (c *command) encode(v any, indent string) error {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(v); err != nil {
		return err
	}
	_, err := io.WriteString(c.out, escaped(out.String()))
	return err
}

// escaped escapes unprintable characters as JSON does. They occur only in strings.
func escaped(text string) string {
	odd := func(r rune) bool { return r >= 0x7f && !strconv.IsPrint(r) }
	if strings.IndexFunc(text, odd) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case !odd(r):
			b.WriteRune(r)
		case r > 0xffff:
			first, second := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, first, second)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// tell prints messages that are not data.
func (c *command) tell(format string, args ...any) { fmt.Fprintf(c.err, format+"\n", args...) }

// confirm has the operator type the given word, unless yes confirms it beforehand. It asks no one without a terminal,
// nor within JSON.
func (c *command) confirm(yes bool, what, word string) error {
	switch {
	case yes:
		return nil
	case !c.asks || c.form != "table":
		return usage("%s: add --yes, since there is no terminal to confirm on", what)
	}
	fmt.Fprintf(c.err, "%s. To go on, type %s\n> ", what, shown.Text(word))
	line, err := c.in.ReadString('\n')
	if err != nil && line == "" {
		return usage("nothing was typed, and nothing is done")
	}
	if typed := strings.TrimRight(line, "\r\n"); typed != word && typed != shown.Text(word) {
		return usage("the typed text is another one, and nothing is done")
	}
	return nil
}

func isTerminal(v any) bool {
	f, ok := v.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull) // another device without an operator behind it
	return err != nil || !os.SameFile(info, null)
}

// exactly is cobra's, with Onceward's words.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n {
			return usage("there have to be %s, and %d were given", cmp.Or(what, "no arguments"), len(args))
		}
		return nil
	}
}
