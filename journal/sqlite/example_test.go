package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	j, err := sqlite.Open(filepath.Join(dir, "payments.db"), sqlite.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer j.Close()
	for op, err := range j.List(context.Background(), journal.Filter{States: []journal.State{journal.StateUnknown}}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(op.ID, "may have taken effect:", op.Cause)
	}
	_, err = j.Get(context.Background(), journal.Ref{ID: "invoice-991/charge"})
	fmt.Println(err)
	// Output: journal: no such operation
}

// An operator has put a backup in the place of the journal, and confirms that the service goes on with it.
func ExampleJournal_Adopt() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "payments.db")
	if err := os.WriteFile(path+"-sidecar", []byte("onceward-sidecar 1 ANOTHERIDENTITY 42\n"), 0o600); err != nil {
		log.Fatal(err)
	}

	j, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer j.Close()
	_, err = j.Join(context.Background())
	fmt.Println(errors.Is(err, journal.ErrRestored))
	if err := j.Adopt(context.Background()); err != nil {
		log.Fatal(err)
	}
	_, err = j.Join(context.Background())
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}

// A copy is made while the journal is in use, and verified before it is relied upon.
func ExampleJournal_Backup() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	j, err := sqlite.Open(filepath.Join(dir, "payments.db"), sqlite.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer j.Close()
	if err := j.Backup(ctx, filepath.Join(dir, "backup.db")); err != nil {
		log.Fatal(err)
	}

	backup, err := sqlite.Open(filepath.Join(dir, "backup.db"), sqlite.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer backup.Close()
	violations, err := backup.Verify(ctx)
	fmt.Println(len(violations), "violations,", err)
	_, err = backup.Join(ctx)
	fmt.Println("to be adopted first:", errors.Is(err, journal.ErrRestored))
	// Output:
	// 0 violations, <nil>
	// to be adopted first: true
}

func ExampleJournal_Stats() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	j, err := sqlite.Open(filepath.Join(dir, "payments.db"), sqlite.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer j.Close()
	stats, err := j.Stats(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(stats.Pending, "pending,", stats.Unknown, "unknown")
	// Output: 0 pending, 0 unknown
}
