package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/internal/shown"
)

// command is one run of the command.
type command struct {
	journal  string // a path or a URL
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

// run runs the command and returns its exit code.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	c := &command{in: bufio.NewReader(in), asks: isTerminal(in), out: out, err: errs, terminal: isTerminal(out), now: time.Now}
	c.colour = c.terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	root, began := c.root()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	err := root.ExecuteContext(ctx)
	code := codeOf(err)
	if err != nil && !*began && code == exitFailed {
		code = exitUsage // cobra refused it before any verb began
	}
	if err != nil && !errors.Is(err, errFindings) {
		fmt.Fprintln(errs, "onceward:", shown.Text(strings.TrimPrefix(err.Error(), "onceward: ")))
		if code == exitUsage {
			fmt.Fprintln(errs, "onceward help says how it is used")
		}
	}
	return code
}

// whichJournal uses the environment if the command line names no journal.
func (c *command) whichJournal() error {
	if inDatabase(c.journal) && hasPassword(c.journal) {
		return usage("the URL has a password, which every user of the machine can see on a command line: " +
			"put it into ~/.pgpass, a service file, PGPASSWORD, or the URL into ONCEWARD_JOURNAL")
	}
	c.journal = cmp.Or(c.journal, os.Getenv("ONCEWARD_JOURNAL"))
	c.schema = cmp.Or(c.schema, os.Getenv("ONCEWARD_SCHEMA"))
	return nil
}

func (c *command) root() (root *cobra.Command, began *bool) {
	began = new(bool)
	var cancel context.CancelFunc = func() {}
	root = &cobra.Command{
		Use:   "onceward",
		Short: "Shows a journal, and records an operator's decisions",
		Long: "onceward looks at a journal beside the application that uses it. It makes no file, migrates none and sends nothing.\n" +
			"An operation or flow is called by its name (with --scope and --parent) or by its handle, such as '#12', which ls shows.",
		SilenceErrors: true, SilenceUsage: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains([]string{"table", "json", "jsonl"}, c.form) {
				return usage("-o %s: there are table, json and jsonl", shown.Text(c.form))
			}
			*began = true
			if err := c.whichJournal(); err != nil {
				return err
			}
			if c.timeout > 0 {
				var ctx context.Context
				ctx, cancel = context.WithTimeout(cmd.Context(), c.timeout)
				cmd.SetContext(ctx)
			}
			return nil
		},
		PersistentPostRun: func(*cobra.Command, []string) { cancel() },
	}
	flags := root.PersistentFlags()
	// The environment's value is no default, which help would print: it may have a password in it.
	flags.StringVarP(&c.journal, "journal", "j", "", "path of the journal's file, or postgres://… without a password (else $ONCEWARD_JOURNAL)")
	flags.StringVar(&c.schema, "schema", "", "in PostgreSQL: the journal's schema (else $ONCEWARD_SCHEMA, else onceward)")
	flags.BoolVar(&c.pooled, "pooled", false, "in PostgreSQL: a pooler in transaction mode is in between")
	flags.StringVarP(&c.form, "output", "o", "table", "table, for people; json or jsonl, whose names are promised")
	flags.DurationVar(&c.timeout, "timeout", 0, "give up after this long; 0: never")
	flags.BoolVar(&c.asOwner, "as-owner", false, "as root: become the user who owns the journal's file")
	flags.BoolVar(&c.fullKeys, "full-keys", false, "show keys whole, unnamed operations' names among them")
	root.AddCommand(
		c.lsCommand(), c.attentionCommand(), c.showCommand(), c.whyCommand(),
		c.flowsCommand(), c.flowCommand(),
		c.receiptsCommand(), c.receiptCommand(),
		c.statsCommand(),
		c.resolveCommand(), c.cancelCommand(),
		c.verifyCommand(), c.backupCommand(), c.adoptCommand(), c.exportCommand(), c.reapCommand(),
		c.doctorCommand(), c.providersCommand(), c.versionCommand(), c.uiCommand(),
	)
	return root, began
}

// result is the output of a verb.
type result interface{ table(t *table) }

// lister is a result with entries: jsonl has a line for each.
type lister interface{ lines() []any }

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
