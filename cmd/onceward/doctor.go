package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/internal/address"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/mysql"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/sqlite"
)

func (c *command) doctorCommand() *cobra.Command {
	x := &examination{}
	cmd := &cobra.Command{
		Use: "doctor", Long: "doctor reads a part of the journal. With --keys it also reads all records, to count the payloads in clear of a sealed journal.", Short: "Look for what is wrong around the journal, and say what to do (exit 5 if something fails)", Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if x.backups != "" && address.Of(c.journal) != address.File {
				return usage("--backup looks at copies of a journal in a SQLite file: see to those of the database with its own tools")
			}
			x.now = c.now()
			s, err := c.open(cmd.Context(), access{})
			if err != nil {
				if !x.opens(err) {
					return err
				}
			} else {
				x.now = c.at(s)
				x.ok("open", "it can be read, and has the schema of this release")
				s.examine(cmd.Context(), x)
				x.data(cmd.Context(), s)
				if c.ring != nil {
					x.sealed(cmd.Context(), s)
				}
				if err := s.Close(); err != nil {
					return err
				}
			}
			x.backupsIn()
			if err := c.say(x); err != nil {
				return err
			}
			if slices.ContainsFunc(x.Checks, func(k checked) bool { return k.Level == levelFail }) {
				return errFindings
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&x.backups, "backup", "", "a folder with backups: how old is the newest?")
	cmd.Flags().DurationVar(&x.backupAge, "backup-age", 25*time.Hour, "with --backup: how old the newest may be")
	cmd.Flags().IntVar(&x.bodies, "bodies", 100, "how many of the newest operations' bodies are looked through for numbers of cards; 0: none")
	return cmd
}

// opens adds a finding for an error that says what is wrong with the file. It returns false for other errors.
func (x *examination) opens(err error) bool {
	const unsafe = "set the server, the database or the tables right, as the message says"
	for _, known := range []struct {
		is      error
		toDo    string
		runbook string
	}{
		{journal.ErrVersion, "use the command of the release that the application runs; never migrate it by hand", "newer-version"},
		{journal.ErrRestored, "remove the -wal and -shm files that are not its own, as the message says, and adopt it", "restore"},
		{sqlite.ErrSecondName, "leave it one name: each name would have a WAL of its own", "journal"},
		{sqlite.ErrNetworkFilesystem, "move it to a disk of this machine: WAL does not work over a network", "journal"},
		{sqlite.ErrNotJournal, "check the path", "journal"},
		{postgres.ErrUnsafe, unsafe, "journal"},
		{mysql.ErrUnsafe, unsafe, "journal"},
	} {
		if errors.Is(err, known.is) {
			x.finds(levelFail, "open", err.Error(), known.toDo, known.runbook)
			return true
		}
	}
	return false
}

// maxExamined limits the operations that each check reads one by one.
const maxExamined = 20_000

// data checks the journal's content, in any store.
func (x *examination) data(ctx context.Context, s store) {
	now, err := s.ReadStats(ctx)
	if err != nil {
		if ctx.Err() != nil {
			x.failed("stats", err)
		} else {
			x.finds(levelFail, "stats", "the journal's content can't be read: "+err.Error(), "run verify; keep a copy, and restore a backup if it is damaged", "journal")
		}
		return
	}
	x.judge(now.Restored == "", "it is not a copy", checked{"restored", levelFail, "it " + now.Restored + ", and sends nothing until it is adopted",
		"make sure that no other copy is in use, then adopt it", "restore"})
	x.judge(now.Unknown == 0, "nothing is unknown", checked{"unknown", levelWarn,
		fmt.Sprintf("%d operations may or may not have taken effect%s", now.Unknown, x.since(moment(now.OldestUnknown))),
		"looks lists when each is looked for; attention lists those that a person has to resolve", "unknown"})
	x.judge(now.Undelivered == 0, "every outcome was delivered", checked{"undelivered", levelWarn, fmt.Sprintf("%d outcomes have not been delivered", now.Undelivered),
		"the application's Config.Outcomes delivers them: see its log for why it does not", "undelivered"})
	x.judge(now.NeedsAttention == 0, "nothing needs attention", checked{"attention", levelWarn,
		fmt.Sprintf("%d operations and flows need attention", now.NeedsAttention), "attention lists them, each with its reason", "needs-attention"})
	x.receipts(ctx, s)
	x.windows(ctx, s)
	x.seconds(ctx, s)
	x.cards(ctx, s)
}

// reapedLate is how long after its end a receipt may still be there. An application removes expired ones every ten minutes.
const reapedLate = 24 * time.Hour

// receipts says how many receipts there are, and whether the application removes the expired ones.
func (x *examination) receipts(ctx context.Context, s store) {
	n, err := countReceipts(ctx, s)
	switch {
	case err != nil:
		x.failed("receipts", err)
		return
	case n == nil:
		return
	}
	x.judge(n.Reserved == 0, fmt.Sprintf("%d receipts, each with its answer recorded", n.all()), checked{"receipts", levelWarn,
		fmt.Sprintf("%d of %d receipts are reserved without an answer%s", n.Reserved, n.all(), x.since(n.OldestReserved)),
		"attention lists them: find whether each took effect, and resolve it by receipt resolve", "receipt-reserved"})
	if n.NextEnd != nil && x.now.Sub(*n.NextEnd) > reapedLate {
		x.finds(levelWarn, "receipts-expired", "receipts have expired and are not removed, the first of them for "+shown.Duration(x.now.Sub(*n.NextEnd)),
			"have the application call Server.Run or Consumer.Run; reap removes them too", "receipts-expired")
	}
}

// windows checks how long operations without an outcome may still be resent.
func (x *examination) windows(ctx context.Context, s store) {
	closing, closed, n := 0, 0, 0
	var soonest time.Duration
	for op, err := range s.List(ctx, journal.Filter{States: []journal.State{journal.StatePending, journal.StateInFlight}, Limit: maxExamined}) {
		if err != nil {
			x.failed("window", err)
			return
		}
		n++
		w, has := shown.WindowOf(&op, x.now)
		switch {
		case !has:
		case w.Left <= 0:
			closed++
		case w.Share < shown.Closing:
			if closing == 0 || w.Left < soonest {
				soonest = w.Left
			}
			closing++
		}
	}
	switch {
	case closed > 0:
		x.finds(levelWarn, "window", fmt.Sprintf("%d pending operations may not be resent any more: their provider may have forgotten them", closed),
			"does Run or Resume run? It makes them unknown; then a person resolves them", "pending")
	case closing > 0:
		x.finds(levelWarn, "window", fmt.Sprintf("%d pending operations have less than a quarter of their window left, the first of them %s", closing, shown.Duration(soonest)),
			"why says for each what it waits for", "pending")
	default:
		x.ok("window", "%d operations wait, and none is near the end of its window", n)
	}
}

// seconds finds operations with a proven second effect.
func (x *examination) seconds(ctx context.Context, s store) {
	twice, _, err := shown.Page(s.List(ctx, journal.Filter{Newest: true, Limit: maxExamined}), maxExamined,
		func(op *journal.Operation) bool { return op.SecondEffects > 0 }, func(op *journal.Operation) string { return handleOf(op.Handle) })
	if err != nil {
		x.failed("second-effect", err)
		return
	}
	x.judge(len(twice) == 0, fmt.Sprintf("none among the newest %d operations", maxExamined), checked{"second-effect", levelFail,
		fmt.Sprintf("%d operations took effect twice, the latest is %s", len(twice), cmp.Or(twice...)),
		"show prints the evidence of each: refund the second one at the provider", "second-effect"})
}

// sealed counts the payloads in clear of a sealed journal. It reads all records, as seal status does.
func (x *examination) sealed(ctx context.Context, s store) {
	has, err := s.SealStatus(ctx)
	if err != nil {
		x.failed("sealed", err)
		return
	}
	if len(has.Keys) == 0 {
		return
	}
	x.judge(has.Clear == 0, "no payload is in clear", checked{"sealed", levelWarn, fmt.Sprintf("%d payloads are in clear, from before the journal was sealed", has.Clear),
		"each goes when Config.Keep has passed; until then programs need Ring.ReadClear, and a person who can write to the tables can have any request sent", "keys"})
}

// cards looks for bodies with card numbers.
func (x *examination) cards(ctx context.Context, s store) {
	if x.bodies <= 0 {
		return
	}
	found, example := 0, ""
	for op, err := range s.List(ctx, journal.Filter{Newest: true, Limit: x.bodies}) {
		if err != nil {
			x.failed("secrets", err)
			return
		}
		whole, err := s.Get(ctx, op.Ref)
		if errors.Is(err, journal.ErrNotFound) {
			continue // it was reaped meanwhile
		}
		if errors.Is(err, journal.ErrSealed) {
			x.finds(levelWarn, "secrets", "bodies are "+sealedBy(whole.SealedBy)+", and were not looked through", "name the file with that key by --keys", "keys")
			return
		}
		if err != nil {
			x.failed("secrets", err)
			return
		}
		if secret.HasCard(string(whole.Request.Body)) || whole.Answer != nil && secret.HasCard(string(whole.Answer.Body)) {
			if found == 0 {
				example = handleOf(op.Handle)
			}
			found++
		}
	}
	x.judge(found == 0, fmt.Sprintf("no numbers of cards in the bodies of the newest %d operations", x.bodies), checked{"secrets", levelWarn,
		fmt.Sprintf("the bodies of %d of the newest %d operations look as if they held numbers of cards, the latest is %s", found, x.bodies, example),
		"let a provider keep the cards and send tokens, or mark the field in the endpoint's SecretRequest", "keys"})
}

// backupsIn looks for the newest backup in a folder.
func (x *examination) backupsIn() {
	if x.backups == "" {
		return
	}
	entries, err := os.ReadDir(x.backups)
	if err != nil {
		x.finds(levelFail, "backup", err.Error(), "check the path of the folder", "backup")
		return
	}
	newest, name := time.Time{}, ""
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || info.Size() == 0 || strings.Contains(e.Name(), ".part-") || !isSQLite(filepath.Join(x.backups, e.Name())) {
			continue
		}
		if info.ModTime().After(newest) {
			newest, name = info.ModTime(), e.Name()
		}
	}
	switch {
	case name == "":
		x.finds(levelFail, "backup", "there is no backup in "+x.backups, "make one: onceward backup", "backup")
	case x.now.Sub(newest) > x.backupAge:
		x.finds(levelFail, "backup", fmt.Sprintf("the newest backup, %s, is %s old", name, shown.Duration(x.now.Sub(newest))), "see why no newer one was made", "backup")
	default:
		x.ok("backup", "%s is %s old", name, shown.Duration(x.now.Sub(newest)))
	}
}
