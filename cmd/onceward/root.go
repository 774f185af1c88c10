package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/address"
	"github.com/onceward/onceward/internal/shown"
	"github.com/spf13/cobra"
)

// run runs the command and returns its exit code.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	c := &command{in: bufio.NewReader(in), asks: isTerminal(in), out: out, err: errs, terminal: isTerminal(out), now: time.Now}
	c.colour = c.terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	root, began := c.root()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	err := needsKeys(root.ExecuteContext(ctx))
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

// noPassword rejects an address on the command line that has a password.
func noPassword(journal string) error {
	kind := address.Of(journal)
	if kind == address.File || !address.HasPassword(journal) {
		return nil
	}
	where := "~/.pgpass, a service file, PGPASSWORD"
	if kind == address.MySQL {
		where = "MYSQL_PWD"
	}
	return usage("the URL has a password, which every user of the machine can see on a command line: put it into %s", where)
}

// whichJournal uses the environment if the command line names no journal.
func (c *command) whichJournal() error {
	if err := noPassword(c.journal); err != nil {
		return fmt.Errorf("%w, or the URL into ONCEWARD_JOURNAL", err)
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
	flags.StringVarP(&c.journal, "journal", "j", "", "path of the journal's file, or postgres://… or mysql://… without a password (else $ONCEWARD_JOURNAL)")
	flags.StringVar(&c.schema, "schema", "", "in a database: the journal's schema (else $ONCEWARD_SCHEMA, else onceward)")
	flags.StringVar(&c.keys, "keys", "", "the file with the keys of a sealed journal, one a line as id:secret (else $ONCEWARD_KEYS)")
	flags.BoolVar(&c.pooled, "pooled", false, "in PostgreSQL: a pooler in transaction mode is in between")
	flags.StringVarP(&c.form, "output", "o", "table", "table, for people; json or jsonl, whose names are promised")
	flags.DurationVar(&c.timeout, "timeout", 0, "give up after this long; 0: never")
	flags.BoolVar(&c.asOwner, "as-owner", false, "as root: become the user who owns the journal's file")
	flags.BoolVar(&c.fullKeys, "full-keys", false, "show keys whole, unnamed operations' names among them")
	root.AddCommand(
		c.lsCommand(), c.attentionCommand(), c.closeCommand(), c.showCommand(), c.whyCommand(),
		c.flowsCommand(), c.flowCommand(),
		c.receiptsCommand(), c.receiptCommand(),
		c.statsCommand(), c.compareCommand(),
		c.resolveCommand(), c.cancelCommand(),
		c.verifyCommand(), c.backupCommand(), c.adoptCommand(), c.exportCommand(), c.reapCommand(), c.sealCommand(),
		c.doctorCommand(), c.providersCommand(), c.versionCommand(), c.uiCommand(),
	)
	return root, began
}
