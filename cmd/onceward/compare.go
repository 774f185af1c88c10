package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/compare"
	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/journal"
)

// comparison is what comes from comparing a list with journals.
type comparison struct {
	OK              bool           `json:"ok" doc:"no finding is grave, each kind is listed, and something was matched"`
	From            time.Time      `json:"from"`
	To              time.Time      `json:"to"`
	Operations      int            `json:"operations" doc:"of the window, that should have an object at the provider"`
	Matched         int            `json:"matched" doc:"of these, the ones whose object is listed"`
	AmountsCompared int            `json:"amounts_compared" doc:"of the matched ones"`
	Objects         int            `json:"objects" doc:"listed in the window"`
	NotCompared     map[string]int `json:"not_compared" doc:"counts by the reason"`
	Unlisted        map[string]int `json:"unlisted" doc:"operations by the kind of their object, of which the list has none"`
	OnlyThere       map[string]sum `json:"only_there" doc:"objects without an operation and a mark, by kind"`
	UnsettledBefore int            `json:"unsettled_before" doc:"operations without an outcome that were sent before the window"`
	Findings        []finding      `json:"findings"`
	Hidden          int            `json:"hidden" doc:"findings that --known names"`
	Omitted         int            `json:"omitted" doc:"findings beyond the first 10000"`
}

type sum struct {
	Objects int              `json:"objects"`
	Minor   map[string]int64 `json:"minor,omitempty" doc:"by currency, in its smallest unit"`
}

type money struct {
	Minor    int64  `json:"minor" doc:"in the currency's smallest unit"`
	Currency string `json:"currency"`
}

type finding struct {
	ID      string    `json:"id" doc:"another run gives the same difference the same id"`
	Kind    string    `json:"kind"`
	Grave   bool      `json:"grave"`
	Journal int       `json:"journal" doc:"0: --journal; from 1: --also"`
	Handle  string    `json:"handle,omitempty" doc:"the operation's handle in its journal"`
	Scope   string    `json:"scope,omitempty"`
	Parent  string    `json:"parent,omitempty"`
	Name    string    `json:"operation,omitempty" doc:"the operation's name"`
	Object  string    `json:"object,omitempty" doc:"kind and id at the provider"`
	Here    *money    `json:"here,omitempty" doc:"the amount of the operation's request"`
	There   *money    `json:"there,omitempty" doc:"the object's amount"`
	At      time.Time `json:"at"`
	Why     string    `json:"why"`
}

func (r *comparison) lines() []any { return lines(r.Findings) }

func (r *comparison) table(t *table) {
	t.line(fmt.Sprintf("%d of %d operations matched, %d amounts compared, %d objects listed, %s to %s",
		r.Matched, r.Operations, r.AmountsCompared, r.Objects, r.From.Format(time.RFC3339), r.To.Format(time.RFC3339)))
	verdict := "the provider has what the journal has, as far as it could be compared"
	if !r.OK {
		verdict = t.painted("the provider and the journal differ", "31")
		if r.Matched == 0 {
			verdict = t.painted("nothing was matched: is it the list of this account?", "31")
		}
	}
	t.line(verdict)
	for _, kind := range slices.Sorted(maps.Keys(r.Unlisted)) {
		t.line(fmt.Sprintf("the list has no %s, and %d operations should have one: name the kinds that are listed by --kind", shown.Text(kind), r.Unlisted[kind]))
	}
	for _, reason := range slices.Sorted(maps.Keys(r.NotCompared)) {
		t.line(fmt.Sprintf("not compared: %d %s", r.NotCompared[reason], reason))
	}
	for _, kind := range slices.Sorted(maps.Keys(r.OnlyThere)) {
		text := fmt.Sprintf("only there, without a mark: %d of kind %s", r.OnlyThere[kind].Objects, shown.Text(kind))
		for _, currency := range slices.Sorted(maps.Keys(r.OnlyThere[kind].Minor)) {
			text += ", " + shown.Text(compare.Money{Minor: r.OnlyThere[kind].Minor[currency], Currency: currency}.String())
		}
		t.line(text)
	}
	for _, n := range []struct {
		count int
		what  string
	}{{r.UnsettledBefore, "operations without an outcome were sent before the window"}, {r.Hidden, "findings are known"}, {r.Omitted, "further findings are left out"}} {
		if n.count > 0 {
			t.line(strconv.Itoa(n.count) + " " + n.what)
		}
	}
	if len(r.Findings) == 0 {
		return
	}
	t.row("FINDING", "KIND", "GRAVE", "HANDLE", "OPERATION", "OBJECT", "HERE", "THERE", "AT", "WHY")
	for i := range r.Findings {
		f := &r.Findings[i]
		grave := ""
		if f.Grave {
			grave = "grave"
		}
		t.row(f.ID, f.Kind, grave, f.Handle, shown.Short(f.Name, 40), shown.Short(f.Object, 40), f.Here.String(), f.There.String(), f.At.Format(time.RFC3339), shown.Text(f.Why))
	}
}

func (m *money) String() string {
	if m == nil {
		return ""
	}
	return shown.Text(compare.Money{Minor: m.Minor, Currency: m.Currency}.String())
}

func moneyOf(m compare.Money) *money {
	if m.Currency == "" {
		return nil
	}
	return &money{m.Minor, m.Currency}
}

// comparing has compare's flags.
type comparing struct {
	provider, from, to, scope, account, mode, known string
	kinds, also                                     []string
	alone, allowEmpty                               bool
}

func (c *command) compareCommand() *cobra.Command {
	var of comparing
	cmd := &cobra.Command{
		Use: "compare FILE.csv", Short: "Compare a provider's list with the journal (exit 5: they differ)", Args: exactly(1, "the list's file, or - for the standard input"),
		Long: "compare reads a list of what the provider has, and compares it with the operations of the journal. It changes nothing.\n" +
			"The list is CSV, in UTF-8, with this first line:\n\n  id,reference,amount,currency,time\n\n" +
			"An amount is a decimal number such as 1234.50, and a time is RFC 3339 with a zone. docs/compare.md has the rest.",
		RunE: func(cmd *cobra.Command, args []string) error {
			opts, err := of.options(cmd)
			if err != nil {
				return err
			}
			for _, other := range of.also {
				if err := noPassword(other); err != nil {
					return fmt.Errorf("--also: %w", err)
				}
			}
			return c.withJournals(cmd.Context(), append([]string{c.journal}, of.also...), nil, func(all []store) error {
				return c.compare(cmd.Context(), all, opts, args[0])
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&of.provider, "provider", "", "the provider, by its table's name (providers ls)")
	flags.StringVar(&of.from, "from", "", "the beginning of the list's time: 2026-03-02 (in UTC) or RFC 3339")
	flags.StringVar(&of.to, "to", "", "the end, which is not part of it; the list should be complete until then")
	flags.StringSliceVar(&of.also, "also", nil, "the journal of another program that uses the account; several by commas")
	flags.StringSliceVar(&of.kinds, "kind", nil, "the kinds of object that are listed, such as charge; several by commas (else all)")
	flags.StringVar(&of.known, "known", "", "a file with the findings that are accepted: an id in each line, and # begins a comment")
	flags.StringVar(&of.scope, "scope", "", "operations of this scope alone; --scope= for those without one")
	flags.StringVar(&of.account, "account", "", "the account that is listed: the value of the provider's account header")
	flags.StringVar(&of.mode, "mode", "", "the mode of the credential that the list is of, such as live")
	flags.BoolVar(&of.alone, "alone", false, "no other program marks objects in this account: a mark without an operation is grave")
	flags.BoolVar(&of.allowEmpty, "allow-empty", false, "agree if no operation should have an object")
	return cmd
}

func (of *comparing) options(cmd *cobra.Command) (opts compare.Options, err error) {
	opts = compare.Options{Account: of.account, Mode: of.mode, Kinds: of.kinds, Alone: of.alone, AllowEmpty: of.allowEmpty}
	for _, p := range known() {
		if strings.EqualFold(p.Name, of.provider) {
			opts.Provider = p
		}
	}
	if opts.Provider.Name == "" {
		return opts, usage("--provider %s: there is no such table here: see providers ls. For a table of your own, use package compare", shown.Text(of.provider))
	}
	if cmd.Flags().Changed("scope") {
		opts.Scope = &of.scope
	}
	if opts.Window.From, err = momentOf("--from", of.from); err != nil {
		return opts, err
	}
	if opts.Window.To, err = momentOf("--to", of.to); err != nil {
		return opts, err
	}
	if of.known != "" {
		opts.Known, err = readKnown(of.known)
	}
	return opts, err
}

func momentOf(flag, text string) (time.Time, error) {
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC(), nil
		}
	}
	return time.Time{}, usage("%s %s: write a day such as 2026-03-02, in UTC, or a time such as 2026-03-02T15:04:05Z", flag, shown.Text(text))
}

var findingID = regexp.MustCompile(`^[a-z_]+-[0-9a-f]{20}$`)

// readKnown reads the accepted findings' ids.
func readKnown(path string) (ids []string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	scanner := bufio.NewScanner(f)
	for n := 1; scanner.Scan(); n++ {
		id, _, _ := strings.Cut(scanner.Text(), "#")
		switch id = strings.TrimSpace(id); {
		case id == "":
		case !findingID.MatchString(id):
			return nil, usage("%s, line %d: %s is no id of a finding, such as other_amount-0123456789abcdef0123", shown.Text(path), n, shown.Short(id, 60))
		default:
			ids = append(ids, id)
		}
	}
	return ids, scanner.Err()
}

// withJournals opens the journals, calls do and closes them.
func (c *command) withJournals(ctx context.Context, names []string, opened []store, do func([]store) error) error {
	if len(names) == 0 {
		return do(opened)
	}
	if slices.ContainsFunc(names[1:], func(other string) bool { return isSameJournal(names[0], other) }) {
		return usage("--also names a journal that is compared already")
	}
	c.journal = names[0]
	return c.using(ctx, access{}, func(s store) error { return c.withJournals(ctx, names[1:], append(opened, s), do) })
}

// isSameJournal reports whether two names mean one journal: one file may have several paths.
func isSameJournal(a, b string) bool {
	one, err := os.Stat(a)
	other, errOther := os.Stat(b)
	return a == b || err == nil && errOther == nil && os.SameFile(one, other)
}

func (c *command) compare(ctx context.Context, all []store, opts compare.Options, path string) error {
	for _, s := range all {
		opts.Journals = append(opts.Journals, s)
	}
	list := io.Reader(c.in)
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		list = f
	}
	if isTerminal(c.err) {
		opts.Progress = func(operations, objects int) {
			fmt.Fprintf(c.err, "\r%d operations, %d objects read", operations, objects)
		}
		defer fmt.Fprint(c.err, "\r\x1b[K")
	}
	report, err := compare.Run(ctx, compare.ReadCSV(list), opts)
	var line *compare.CSVError
	var option *compare.OptionsError
	switch {
	case errors.As(err, &line):
		return usage("%s, line %d: %s", shown.Text(path), line.Line, line.Problem)
	case errors.As(err, &option):
		return usage("%s: %s", "--"+cmp.Or(map[string]string{"Window": "to", "Kinds": "kind", "Journals": "also"}[option.Field], strings.ToLower(option.Field)), option.Problem)
	case err != nil:
		return err
	}
	said, err := c.comparisonOf(ctx, all, report, opts.Window)
	if err == nil {
		err = c.say(said)
	}
	if err == nil && !report.OK() {
		err = errFindings
	}
	return err
}

func (c *command) comparisonOf(ctx context.Context, all []store, r *compare.Report, w compare.Window) (*comparison, error) {
	out := &comparison{
		OK: r.OK(), From: w.From, To: w.To, Operations: r.Operations, Matched: r.Matched, AmountsCompared: r.AmountsCompared, Objects: r.Objects,
		NotCompared: r.NotCompared, Unlisted: r.Unlisted, OnlyThere: map[string]sum{}, UnsettledBefore: r.UnsettledBefore,
		Findings: []finding{}, Hidden: r.Hidden, Omitted: r.Omitted,
	}
	for kind, s := range r.OnlyThere {
		out.OnlyThere[kind] = sum{s.Objects, s.Minor}
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		one := finding{
			ID: f.ID, Kind: f.Kind.String(), Grave: f.Grave, Journal: f.Journal, Object: f.Object, Here: moneyOf(f.Here), There: moneyOf(f.There), At: f.At.UTC(), Why: f.Why,
		}
		if f.Ref != (journal.Ref{}) {
			op, err := all[f.Journal].Get(ctx, f.Ref)
			if err != nil && !errors.Is(err, journal.ErrNotFound) {
				return nil, err
			}
			if err == nil {
				named := c.operationOf(&op)
				one.Handle, one.Scope, one.Parent, one.Name = named.Handle, named.Scope, named.Parent, named.ID
			}
		}
		out.Findings = append(out.Findings, one)
	}
	return out, nil
}
