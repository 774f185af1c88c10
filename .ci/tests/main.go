// Command tests reads the output of go test -json and prints what a reader wants
// to know: a line for each package, and all that a failed test wrote. Its exit
// status is 1 if a test failed, or skipped without standing in the file of allowed
// skips that its argument names: a test that skips proves nothing.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64

	ImportPath string // of build output, which has no package
}

type id struct{ pkg, test string }

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "tests:", err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	if len(args) != 1 {
		return errors.New("usage: go test -json ./... | tests allowed-skips.txt")
	}
	allowed, err := readAllowed(args[0])
	if err != nil {
		return err
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
			if e.Action == "skip" { // it has no tests
				continue
			}
			fmt.Fprintf(out, "%-5s%s  %.1f s\n", e.Action, e.Package, e.Elapsed)
			if e.Action == "fail" {
				wrong = append(wrong, "failed: "+e.Package)
				fmt.Fprint(out, strings.Join(output[at], ""))
				for other, said := range output { // tests that the process did not outlive
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
			reason, ok := allowed[at]
			if !ok {
				reason = "not allowed"
				wrong = append(wrong, fmt.Sprintf("skipped: %s %s", e.Package, e.Test))
				fmt.Fprint(out, strings.Join(output[at], ""))
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

// readAllowed reads lines of package, test and reason. # begins a comment.
func readAllowed(path string) (map[id]string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	allowed := map[id]string{}
	for n, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.SplitN(line, " ", 3)
		if len(fields) < 3 {
			return nil, fmt.Errorf("%s:%d: not a package, a test and a reason", path, n+1)
		}
		allowed[id{fields[0], fields[1]}] = fields[2]
	}
	return allowed, nil
}
