// Package visits counts what the lives of internal/sim come past. Its callers are the tests
// there, and code that internal/clauses has rewritten for one run.
package visits

import (
	"encoding/json"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// Variable and MattersVariable of the environment name the files that Write writes, and AtOnceVariable one that Matters
// adds to.
const (
	Variable        = "ONCEWARD_VISITS"
	MattersVariable = "ONCEWARD_MATTERS"
	AtOnceVariable  = "ONCEWARD_MATTERS_AT_ONCE"
)

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

var (
	mattering sync.Mutex
	matters   = map[int]bool{}
	mattered  = map[int][]uint64{}
)

// Matters notes that a clause made a difference, by its number, and writes it at once to the file that AtOnceVariable of
// the environment names.
func Matters(clause int) {
	mattering.Lock()
	defer mattering.Unlock()
	if matters[clause] {
		return
	}
	matters[clause] = true
	if file := os.Getenv(AtOnceVariable); file != "" {
		if f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600); err == nil {
			_, _ = f.WriteString(strconv.Itoa(clause) + "\n")
			_ = f.Close()
		}
	}
}

// LifeEnds has what mattered since the last life ended be of the life with that seed. That is so only where lives are
// lived one after the other, with GOMAXPROCS=1.
func LifeEnds(seed uint64) {
	mattering.Lock()
	defer mattering.Unlock()
	for clause := range matters {
		mattered[clause] = append(mattered[clause], seed)
	}
	clear(matters)
}

// Write writes all counts, by name, to the file that Variable of the environment names, and to that of MattersVariable the
// seeds of the lives in which a clause mattered, by its number; what has no file is not written.
func Write() error {
	if file := os.Getenv(Variable); file != "" {
		all := map[string]int64{}
		counts.Range(func(name, n any) bool {
			all[name.(string)] = n.(*atomic.Int64).Load()
			return true
		})
		if err := write(file, all); err != nil {
			return err
		}
	}
	if file := os.Getenv(MattersVariable); file != "" {
		mattering.Lock()
		defer mattering.Unlock()
		return write(file, mattered)
	}
	return nil
}

func write(file string, what any) error {
	text, err := json.Marshal(what)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}
