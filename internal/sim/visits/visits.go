// Package visits counts what the lives of internal/sim come past. Its callers are the tests
// there, and code that internal/clauses has rewritten for one run.
package visits

import (
	"encoding/json"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
)

// Variable of the environment names the file that Write writes.
const Variable = "ONCEWARD_VISITS"

var counts sync.Map // of *atomic.Int64, by name

// Count counts a visit. It is safe for concurrent use.
func Count(name string) {
	n, there := counts.Load(name)
	if !there {
		n, _ = counts.LoadOrStore(name, new(atomic.Int64))
	}
	n.(*atomic.Int64).Add(1)
}

// CountBeside counts a visit, unless what called the counted function is code whose name has a part:
// a provider of a test judges its own answers by what its clients judge them by.
func CountBeside(name, part string) {
	callers := make([]uintptr, 3)
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers)])
	if frame, _ := frames.Next(); strings.Contains(frame.Function, part) {
		return
	}
	Count(name)
}

// If counts which way a condition went, and returns it.
func If(name string, is bool) bool {
	if is {
		Count(name + ": true")
	} else {
		Count(name + ": false")
	}
	return is
}

// Write writes all counts, by name, to the file that the environment names; without a name it
// writes nothing.
func Write() error {
	file := os.Getenv(Variable)
	if file == "" {
		return nil
	}
	all := map[string]int64{}
	counts.Range(func(name, n any) bool {
		all[name.(string)] = n.(*atomic.Int64).Load()
		return true
	})
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}
