// Command tests reads the output of `go test -json` and prints one line per package, the whole output of each failed
// test, and each skip with its reason. It exits with 1 if a test failed, or skipped for a reason that no file with
// allowed reasons lists: a skipped test proves nothing.
//
// A line of a file of allowed reasons holds the end of a package's path, or *, and the beginning of a reason.
// # starts a comment.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64

	ImportPath string // set on build output, which has no package
}

type id struct{ pkg, test string }

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "tests:", err)
		os.Exit(1)
	}
}

func run(files []string, in io.Reader, out io.Writer) error {
	if len(files) == 0 {
		return errors.New("usage: go test -json ./... | tests ALLOWED-SKIPS.txt…")
	}
	var allowed []allowance
	for _, file := range files {
		more, err := readAllowed(file)
		if err != nil {
			return err
		}
		allowed = append(allowed, more...)
	}
	var (
		output                  = map[id][]string{}
		passed, failed, skipped int
		wrong                   []string
	)
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintln(out, lines.Text())
			continue
		}
		at := id{e.Package, e.Test}
		switch e.Action {
		case "output":
			output[at] = append(output[at], e.Output)
			continue
		case "build-output":
			fmt.Fprint(out, e.Output)
			continue
		case "build-fail":
			wrong = append(wrong, "does not build: "+e.ImportPath)
			continue
		case "pass", "fail", "skip":
		default:
			continue
		}
		if e.Test == "" {
			if e.Action == "skip" { // the package has no tests
				continue
			}
			fmt.Fprintf(out, "%-5s%s  %.1f s\n", e.Action, e.Package, e.Elapsed)
			if e.Action == "fail" {
				wrong = append(wrong, "failed: "+e.Package)
				fmt.Fprint(out, strings.Join(output[at], ""))
				for other, said := range output { // tests that were running when the process ended
					if other.pkg == e.Package && other.test != "" {
						fmt.Fprint(out, strings.Join(said, ""))
					}
				}
			}
			continue
		}
		switch e.Action {
		case "pass":
			passed++
		case "fail":
			failed++
			fmt.Fprint(out, strings.Join(output[at], ""))
		case "skip":
			skipped++
			reason := skipReason(output[at])
			if !slices.ContainsFunc(allowed, func(a allowance) bool { return a.allows(e.Package, reason) }) {
				wrong = append(wrong, fmt.Sprintf("skipped for a reason that is not allowed: %s %s: %s", e.Package, e.Test, reason))
			}
			fmt.Fprintf(out, "skip %s %s: %s\n", e.Package, e.Test, reason)
		}
		delete(output, at)
	}
	if err := lines.Err(); err != nil {
		return err
	}
	fmt.Fprintf(out, "tests: %d passed, %d failed, %d skipped\n", passed, failed, skipped)
	switch {
	case len(wrong) > 0:
		return errors.New(strings.Join(wrong, "\n"))
	case passed == 0:
		return errors.New("no test ran")
	}
	return nil
}

// skipReason returns the text that a test passed to t.Skip. It stands after "file.go:12: ".
func skipReason(output []string) (reason string) {
	for _, line := range output {
		if strings.HasPrefix(strings.TrimSpace(line), "--- SKIP") {
			continue
		}
		if _, text, ok := strings.Cut(strings.TrimSpace(line), ".go:"); ok {
			if _, text, ok := strings.Cut(text, ": "); ok {
				reason = text
			}
		}
	}
	return reason
}

// allowance lets a package's tests skip for one reason.
type allowance struct{ pkg, reason string }

func (a allowance) allows(pkg, reason string) bool {
	return (a.pkg == "*" || strings.HasSuffix(pkg, "/"+a.pkg)) && strings.HasPrefix(reason, a.reason)
}

func readAllowed(path string) (all []allowance, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		pkg, reason, ok := strings.Cut(line, " ")
		if !ok {
			return nil, fmt.Errorf("%s:%d: not a package and a reason", path, n)
		}
		all = append(all, allowance{pkg, strings.TrimSpace(reason)})
	}
	return all, nil
}
