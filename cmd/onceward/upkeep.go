package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/internal/machine"
	keys "github.com/onceward/onceward/internal/receipts"
	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/journal"
)

// violation is a state that the state machine or the file's format rules out.
type violation struct {
	Handle    string `json:"handle,omitempty" doc:"of the operation or flow; left out: it is of the file"`
	Flow      bool   `json:"flow,omitempty" doc:"of a flow"`
	Invariant string `json:"invariant" doc:"what does not hold"`
	Text      string `json:"text" doc:"the same, with what it is about, keys shortened"`
}

// verified is verify's output.
type verified struct {
	Sound      bool        `json:"sound"`
	Violations []violation `json:"violations"`
	Receipts   int64       `json:"receipts,omitempty" doc:"how many were read; left out: there are none"`
}

// violationsOf verifies a journal.
func violationsOf(ctx context.Context, s store) ([]violation, error) {
	found, err := s.Verify(ctx)
	out := make([]violation, 0, len(found))
	for _, v := range found {
		said := violation{Invariant: v.Invariant, Flow: v.Flow, Text: v.String()}
		if v.Handle != 0 {
			said.Handle = handleOf(v.Handle)
		}
		out = append(out, said)
	}
	return out, err
}

func (v *verified) lines() []any { return lines(v.Violations) }

func (v *verified) table(t *table) {
	if v.Sound {
		t.line("sound")
	}
	for _, one := range v.Violations {
		t.line(shown.Text(one.Text))
	}
	if v.Receipts > 0 {
		t.line(fmt.Sprintf("%d receipts", v.Receipts))
	}
}

func (c *command) verifyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "verify", Short: "Read the whole journal, and name what is wrong with it (exit 5)", Args: exactly(0, ""),
		RunE: c.reads(func(ctx context.Context, s store, _ []string) error {
			found, err := violationsOf(ctx, s)
			if err != nil {
				return err
			}
			receipts, err := countReceipts(ctx, s)
			if err != nil && len(found) == 0 {
				return err
			}
			if err := c.say(&verified{len(found) == 0, found, receipts.all()}); err != nil {
				return err
			}
			if len(found) > 0 {
				c.tell("onceward: keep a copy of the journal, and restore a backup")
				return errFindings
			}
			return nil
		}),
	}
}

// copied is backup's output.
type copied struct {
	Path       string      `json:"path"`
	Bytes      int64       `json:"bytes"`
	Violations []violation `json:"violations" doc:"what is wrong with the copy: none, if all is well"`
	Receipts   int64       `json:"receipts,omitempty" doc:"how many it has; left out: there are none"`
}

func (b *copied) table(t *table) {
	line := fmt.Sprintf("%s, %s, read again and sound", shown.Text(b.Path), shown.Bytes(b.Bytes))
	if b.Receipts > 0 {
		line += fmt.Sprintf(", %d receipts", b.Receipts)
	}
	t.line(line)
}

func (c *command) backupCommand() *cobra.Command {
	return &cobra.Command{
		Use: "backup PATH", Short: "Write a copy of the journal to a new file, and verify that", Args: exactly(1, "the path of a file that is not there yet"),
		RunE: c.reads(func(ctx context.Context, s store, args []string) error {
			if err := s.backup(ctx, args[0]); errors.Is(err, fs.ErrExist) {
				return refused("there is a file at %s already, and it is left alone", shown.Text(args[0]))
			} else if err != nil {
				return err
			}
			info, err := os.Stat(args[0])
			if err != nil {
				return err
			}
			made, err := c.openFile(ctx, args[0], access{})
			if err != nil {
				return fmt.Errorf("the copy can't be read: %w", err)
			}
			defer made.Close()
			found, err := violationsOf(ctx, made)
			if err != nil {
				return fmt.Errorf("the copy can't be read to its end: %w", err)
			}
			receipts, err := countReceipts(ctx, made)
			if err != nil && len(found) == 0 {
				return fmt.Errorf("the copy can't be read to its end: %w", err)
			}
			path, _ := filepath.Abs(args[0])
			if err := c.say(&copied{path, info.Size(), found, receipts.all()}); err != nil || len(found) == 0 {
				return err
			}
			c.tell("onceward: the copy is not sound, and nor may be the journal: run verify")
			return errFindings
		}),
	}
}

// adopted is adopt's output.
type adopted struct {
	Adopted bool  `json:"adopted" doc:"false: it was not restored or copied, and nothing was done"`
	Before  stats `json:"before"`
	After   stats `json:"after"`
}

func (a *adopted) table(t *table) {
	if !a.Adopted {
		t.line("it was not restored or copied: nothing was done")
		return
	}
	t.line(fmt.Sprintf("adopted: %d pending and %d unknown now, %d and %d before", a.After.Pending, a.After.Unknown, a.Before.Pending, a.Before.Unknown))
}

const soleCopy = "no other copy is in use"

func (c *command) adoptCommand() *cobra.Command {
	sure, as := false, ""
	var deployment *string
	cmd := &cobra.Command{
		Use: "adopt", Short: "Make a journal that was restored or copied the one to go on with", Args: exactly(0, ""),
		PreRun: func(cmd *cobra.Command, _ []string) {
			if cmd.Flags().Changed("as") {
				deployment = &as
			}
		},
		RunE: c.runs(access{write: true}, func(ctx context.Context, s store, _ []string) error {
			before, err := c.statsOf(ctx, s)
			if err != nil {
				return err
			}
			if !before.Restored && deployment == nil {
				return c.say(&adopted{Before: before, After: before})
			}
			last, _, err := s.clock(ctx, c.at(s))
			if err != nil {
				return err
			}
			if deployment != nil {
				c.tell("The journal becomes that of deployment '%s': programs of another one are refused from then on.", shown.Text(as))
			}
			if before.Restored {
				c.tell("The journal was restored or copied. It ends at %s, %s ago: what was sent since is not in it.\n"+
					"Names that were begun since are not known, and execute when they are asked for again: look for them at the providers.",
					last.UTC().Format(time.RFC3339), shown.Duration(c.at(s).Sub(last)))
			}
			c.tell("Its %d operations without an answer will count as sent; those that may not be resent become unknown, and so do its %d cancelled ones.",
				before.Pending+before.InFlight, before.Cancelled)
			if err := c.confirm(sure, "By adopting it you assert that no other copy of it is in use, nor will be", soleCopy); err != nil {
				return err
			}
			if err := s.adopt(ctx, deployment); err != nil {
				return err
			}
			after, err := c.statsOf(ctx, s)
			if err != nil {
				return err
			}
			return c.say(&adopted{true, before, after})
		}),
	}
	cmd.Flags().BoolVar(&sure, "yes", false, "don't ask: no other copy is in use, nor will be")
	cmd.Flags().StringVar(&as, "as", "", "the deployment whose journal it becomes (Options.Deployment), restored or not; --as= leaves that to the next program")
	return cmd
}

func (c *command) exportCommand() *cobra.Command {
	bodies := false
	var scope string
	cmd := &cobra.Command{
		Use: "export", Short: "Write every operation as a line of JSON, oldest first, keys whole", Args: exactly(0, ""),
		Long: "export writes every operation as a line of JSON, oldest first, with whole keys. A line has payloads in clear, also of a sealed journal.\n" +
			"Without the keys, a line names the key instead, and --bodies is refused.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.using(cmd.Context(), access{}, func(s store) error {
				filter := journal.Filter{}
				if cmd.Flags().Changed("scope") {
					filter.Scope = &scope
				}
				return c.export(cmd.Context(), s, filter, bodies)
			})
		},
	}
	cmd.Flags().BoolVar(&bodies, "bodies", false, "with the bodies of requests and answers, as they are, in base64")
	cmd.Flags().StringVar(&scope, "scope", "", "of this scope alone")
	return cmd
}

// export writes the operations that there are when it begins: an application may begin them faster than export reads.
func (c *command) export(ctx context.Context, s store, filter journal.Filter, bodies bool) error {
	filter.Before = 1
	for op, err := range s.List(ctx, journal.Filter{Newest: true, Limit: 1}) {
		if err != nil {
			return err
		}
		filter.Before = op.Handle + 1
	}
	sealed := map[string]int{} // lines by the missing key
	for op, err := range s.List(ctx, filter) {
		if err != nil {
			return err
		}
		whole, err := s.Get(ctx, op.Ref)
		if errors.Is(err, journal.ErrNotFound) {
			continue // it was reaped meanwhile
		}
		if !bodies {
			err = unlessSealed(err)
		}
		if err != nil {
			return err
		}
		if whole.SealedBy != "" {
			sealed[whole.SealedBy]++
		}
		if err := c.encode(journal.ArchivedOf(&whole, bodies), ""); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(sealed)) {
		c.tell("onceward: %d lines lack what is %s: name the file with that key by --keys", sealed[key], sealedBy(key))
	}
	return nil
}

// reaped is reap's output.
type reaped struct {
	Operations int `json:"operations" doc:"how many were shrunk or removed"`
	Flows      int `json:"flows"`
	Receipts   int `json:"receipts,omitempty" doc:"of how many the answer or the rest was removed, by their own time; left out: of none"`
}

func (r *reaped) table(t *table) {
	line := fmt.Sprintf("%d operations and %d flows", r.Operations, r.Flows)
	if r.Receipts > 0 {
		line = fmt.Sprintf("%d operations, %d flows and %d receipts", r.Operations, r.Flows, r.Receipts)
	}
	t.line(line)
}

// usualKeep is a client's default.
const usualKeep = 90 * 24 * time.Hour

// reapAtOnce is reap's batch size.
const reapAtOnce = 1000

func (c *command) reapCommand() *cobra.Command {
	keep, sure := time.Duration(0), false
	cmd := &cobra.Command{
		Use:   "reap --keep DURATION",
		Short: "Shrink or remove operations that are past their keep, as the application's own Run does",
		Long: "reap shrinks or removes what was settled longer ago than --keep, and never what a provider may still remember. Expired receipts go\n" +
			"too, by their own time. It is never needed beside an application whose Run does that. To keep a copy of what goes, run export before.",
		Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if keep <= 0 {
				return usage("reap needs --keep, since what the application keeps is not known here")
			}
			if keep < usualKeep {
				if err := c.confirm(sure, fmt.Sprintf("What is older than %s goes, although %s are usual", shown.Duration(keep), shown.Duration(usualKeep)), keep.String()); err != nil {
					return err
				}
			}
			return c.using(cmd.Context(), access{write: true}, func(s store) error { return c.reap(cmd.Context(), s, keep) })
		},
	}
	cmd.Flags().DurationVar(&keep, "keep", 0, "how long after its outcome an operation is kept, such as 2160h for 90 days")
	cmd.Flags().BoolVar(&sure, "yes", false, "don't ask")
	return cmd
}

func (c *command) reap(ctx context.Context, s store, keep time.Duration) error {
	var done reaped
	var failed error // each kind's first error, which keeps no other operation from being reaped
	for {
		n, err := s.Reap(ctx, machine.Event{Kind: machine.EventReap, At: c.at(s), Keep: keep}, reapAtOnce)
		done.Operations += n
		failed = cmp.Or(failed, err)
		if err != nil || n < reapAtOnce {
			break
		}
	}
	for {
		n, err := s.ReapFlows(ctx, machine.FlowEvent{Kind: machine.FlowEventReap, At: c.at(s), Keep: keep}, reapAtOnce)
		done.Flows += n
		failed = cmp.Or(failed, err)
		if err != nil || n < reapAtOnce {
			break
		}
	}
	receipts, err := countReceipts(ctx, s)
	failed = cmp.Or(failed, err)
	for receipts != nil {
		n, err := s.ReapReceipts(ctx, machine.ReceiptEvent{Kind: machine.ReceiptReap, At: c.at(s)}, keys.AtATime)
		done.Receipts += n
		failed = cmp.Or(failed, err)
		if err != nil || n < keys.AtATime {
			break
		}
	}
	if failed != nil && done == (reaped{}) {
		return failed
	}
	return cmp.Or(failed, c.say(&done))
}
