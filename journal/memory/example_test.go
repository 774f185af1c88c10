package memory_test

import (
	"context"
	"fmt"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
)

func ExampleNew() {
	j := memory.New()
	defer j.Close()
	_, err := j.Get(context.Background(), journal.Ref{ID: "invoice-991/charge"})
	fmt.Println(err)
	// Output: journal: no such operation
}
