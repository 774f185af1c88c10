package sqlite_test

import (
	"context"
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
