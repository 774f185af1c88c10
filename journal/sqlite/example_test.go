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

	j, err := sqlite.Open(filepath.Join(dir, "payments.db"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer j.Close()
	for op, err := range j.List(context.Background(), journal.Filter{States: []journal.State{journal.Unknown}}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(op.ID, "may have taken effect:", op.Cause)
	}
	_, err = j.Get(context.Background(), journal.Ref{ID: "invoice-991/charge"})
	fmt.Println(err)
	// Output: journal: no such operation
}

// Somebody put a backup in the place of the journal, and says that it is the one to
// go on with.
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

	j, err := sqlite.Open(path, nil)
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
