package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/internal/address"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// contents are the methods that every store's journal has.
type contents interface {
	machine.Store
	machine.Flows
	machine.Reconciler
	journal.StatsReader
	machine.Receipts
	journal.ReceiptCounter
	journal.Bookmarks
	Verify(ctx context.Context) ([]journal.Violation, error)
	SealStatus(ctx context.Context) (journal.SealStatus, error)
}

// store is a journal as this command uses it, of any kind.
type store interface {
	contents

	// clock returns the latest time that the journal has seen, and when a clock that has jumped is believed. Zero
	// means that it is.
	clock(ctx context.Context, now time.Time) (last, unconfirmed time.Time, err error)
	// backup writes a copy to a new file.
	backup(ctx context.Context, path string) error
	// adopt adopts the journal. A deployment that is not nil becomes its owner.
	adopt(ctx context.Context, deployment *string) error
	// examine runs the store's own doctor checks.
	examine(ctx context.Context, x *examination)
}

// access says for what purpose a store is opened.
type access struct {
	write bool
}

// open opens the journal that the flags name. The caller closes it.
func (c *command) open(ctx context.Context, how access) (store, error) {
	if err := c.readRing(); err != nil {
		return nil, err
	}
	var p product
	var err error
	switch address.Of(c.journal) {
	case address.PostgreSQL:
		p, err = c.postgreSQL()
	case address.MySQL:
		p, err = c.mySQL()
	default:
		if err := c.namesFile(); err != nil {
			return nil, err
		}
		return c.openFile(ctx, c.journal, how)
	}
	if err != nil {
		return nil, err
	}
	return c.openDatabase(ctx, p, how)
}

const kinds = "a SQLite file, by its path, or in PostgreSQL, by postgres://user@host:5432/database, or in MySQL, by mysql://user@host:3306/ or user@tcp(host:3306)/"

// namesFile rejects a name that is no path, and shows none that may have a password in it.
func (c *command) namesFile() error {
	if c.journal == "" {
		return usage("which journal? Name its file, or the URL of its database, by --journal or by ONCEWARD_JOURNAL")
	}
	if _, err := os.Lstat(c.journal); err == nil || !address.MeansDatabase(c.journal) {
		return nil
	}
	scheme, _, isURL := strings.Cut(c.journal, "://")
	if isURL && !strings.ContainsAny(scheme, " =@") {
		return usage("%s://…: a journal is %s", shown.Text(scheme), kinds)
	}
	return usage("that is no path, and no URL: a journal is %s", kinds)
}

// runner is a verb's function for cobra.
type runner = func(*cobra.Command, []string) error

// runs returns the function for a verb that uses the journal.
func (c *command) runs(how access, do func(ctx context.Context, s store, args []string) error) runner {
	return func(cmd *cobra.Command, args []string) error {
		return c.using(cmd.Context(), how, func(s store) error { return do(cmd.Context(), s, args) })
	}
}

// reads is runs for a verb that only reads.
func (c *command) reads(do func(ctx context.Context, s store, args []string) error) runner {
	return c.runs(access{}, do)
}

// using opens the journal, calls do and closes it.
func (c *command) using(ctx context.Context, how access, do func(store) error) error {
	s, err := c.open(ctx, how)
	if err != nil {
		return err
	}
	return errors.Join(do(s), s.Close())
}

// at returns the journal's time: this machine's, or its database's.
func (c *command) at(s store) time.Time {
	if clock, has := s.(machine.Clock); has {
		return clock.Now()
	}
	return c.now()
}

// openFile opens a journal in an existing SQLite file, as the user who owns it.
func (c *command) openFile(ctx context.Context, path string, how access) (*file, error) {
	real, err := c.file(path)
	if err != nil {
		return nil, err
	}
	if err := c.becomeOwner(real); err != nil {
		return nil, err
	}
	f := &file{path: real}
	f.Journal, err = sqlite.Open(real, sqlite.Options{
		Existing: true, ReadOnly: !how.write, Seal: c.ringFor(how),
		ExternalCheckpointer: how.write && f.hasWAL(ctx),
		Volatile:             true, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// file returns an existing file's real path.
func (c *command) file(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", notFound("there is no journal at %s, and none is made", path)
	}
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return "", fmt.Errorf("journal %s: %w", path, err)
	}
	info, err := os.Stat(real)
	switch {
	case err != nil:
		return "", fmt.Errorf("journal %s: %w", path, err)
	case !info.Mode().IsRegular():
		return "", refused("%s is no regular file: give the path of a journal", path)
	case info.Size() == 0:
		return "", refused("%s is an empty file, and no journal is made in it", path)
	case unreadable(real) != nil:
		if err := c.becomeOwner(real); err != nil {
			return "", err // which says why
		}
		return "", fmt.Errorf("journal %s: %w", path, unreadable(real))
	case !isSQLite(real): // looked at while no connection is open: closing a file drops its locks
		return "", refused("%s is no SQLite database: give the path of a journal", path)
	}
	return real, nil
}

// unreadable returns why a file can't be opened. No connection may be open, as for isSQLite.
func unreadable(path string) error {
	f, err := os.Open(path)
	if err == nil {
		err = f.Close()
	}
	return err
}
