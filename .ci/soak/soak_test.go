package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A test soaks if it uses internal/soak itself, through a function or a variable in its package, or through another package.
func TestSpread(t *testing.T) {
	all, err := declarations("suite/suite.go", `package suite

import "example.org/soak"

func Run(t *testing.T) { soak.Seed(t, 1) }

func Other() {}
`)
	require.NoError(t, err)
	more, err := declarations("store/store_test.go", `package store_test

import (
	"example.org/soak"
	"example.org/suite"
)

var many = soak.Times(1, 2)

func TestItself(t *testing.T) {
	soak.Seed(t, 1)
}

func TestThroughAVariable(t *testing.T) {
	helper(t)
}

func helper(t *testing.T) { _ = many }

func TestThroughASuite(t *testing.T) {
	suite.Run(t)
}

func TestNot(t *testing.T) {
	many, Run := 1, suite.Other
	Run(many)
}
`)
	require.NoError(t, err)
	all = append(all, more...)
	spread(all)
	var names []string
	for _, d := range all {
		if d.soaks && d.kind == test {
			names = append(names, d.dir+" "+d.name)
		}
	}
	assert.Equal(t, []string{"./store TestItself", "./store TestThroughAVariable", "./store TestThroughASuite"}, names)
}

func TestJudge(t *testing.T) {
	fail := errors.New("exit status 1")
	a, f := &item{kind: test, dir: "./a", name: "TestA"}, &item{kind: fuzz, dir: "./a", name: "FuzzA"}
	for name, c := range map[string]struct {
		of       *item
		output   string
		err      error
		is       verdict
		reason   string
		repeated string
	}{
		"passed":        {a, "--- PASS: TestA (0.00s)\nPASS\n", nil, passed, "", ""},
		"skipped":       {a, "--- SKIP: TestA (0.00s)\nPASS\n", nil, skipped, "", ""},
		"a subtest":     {a, "--- PASS: TestA (0.00s)\n    --- SKIP: TestA/one (0.00s)\nPASS\n", nil, passed, "", ""},
		"failed":        {a, "--- FAIL: TestA (0.00s)\nFAIL\n", fail, failed, "exit status 1", "(cd ./a && ONCEWARD_SOAK=7 go test -count 1 -run '^TestA$')"},
		"hangs":         {a, "panic: test timed out after 5m0s\n", fail, failed, "hangs", "(cd ./a && ONCEWARD_SOAK=7 go test -count 1 -run '^TestA$')"},
		"fuzz deadline": {f, "--- FAIL: FuzzA (10.00s)\n    context deadline exceeded\nFAIL\n", fail, cut, "", ""},
		"fuzz input": {f, "--- FAIL: FuzzA (1.00s)\n    Failing input written to testdata/fuzz/FuzzA/0123\n    To re-run:\n", fail, failed, "exit status 1",
			"(cd ./a && go test -run '^FuzzA$/^0123$')"},
	} {
		t.Run(name, func(t *testing.T) {
			r := judge(c.of, 7, c.output, c.err)
			assert.Equal(t, c.is, r.verdict)
			assert.Equal(t, c.reason, r.reason)
			assert.Equal(t, c.repeated, r.repeat)
		})
	}
}

func TestReport(t *testing.T) {
	var out strings.Builder
	i := &item{kind: test, dir: "./a", name: "TestA"}
	assert.EqualError(t, report(&out, []*item{i}), "no run came to its end")
	i.results = []result{{verdict: passed, took: time.Second}, {verdict: cut}}
	assert.NoError(t, report(&out, []*item{i}))
	out.Reset()
	i.results = append(i.results, result{verdict: failed, took: time.Second, reason: "hangs", repeat: "go test"})
	assert.EqualError(t, report(&out, []*item{i}), "1 runs failed, 1 passed")
	assert.Regexp(t, `\n +1 +1 +0 +1 +2s  \./a TestA\n`, out.String())
	assert.Contains(t, out.String(), "./a TestA: hangs\n    go test\n")
}
