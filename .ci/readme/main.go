// Command readme keeps the promises of documents: each shell or Go block in them is run or compiled. A comment
// before the block says how:
//
//	<!-- ci: test -->, <!-- ci: run -->  .ci/run runs the commands in the checkout
//	<!-- ci: sh -->                      run in an empty module that stands for a user's
//	<!-- ci: go -->                      compiled in that module, after its commands
//
// A go block is a whole file, or statements. Statements may use what the mark
// declares, as the parameters of a function: <!-- ci: go ctx context.Context -->.
//
// Its own commands:
//
//	readme commands MARK FILE  prints the commands under that mark
//	readme try FILE…           runs the sh and go blocks; an unmarked block fails it
//	readme modules             gets each module as a user would, published without replace
package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "readme:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 3 && args[0] == "commands":
		blocks, err := readBlocks(args[2])
		if err != nil {
			return err
		}
		return printCommands(blocks, args[1])
	case len(args) == 1 && args[0] == "modules":
		return tryModules()
	case len(args) >= 2 && args[0] == "try":
		var (
			blocks []block
			errs   []error
		)
		for _, file := range args[1:] {
			more, err := readBlocks(file)
			blocks, errs = append(blocks, more...), append(errs, err)
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
		return try(blocks)
	}
	return errors.New("usage: readme commands MARK FILE, readme try FILE…, or readme modules")
}

// block is one fenced block, in shell or Go.
type block struct {
	at     string // file:line
	lang   string
	mark   string // "" if there is none
	params string // what the mark declares
	text   string
}

var marksOf = map[string][]string{
	"sh":   {"test", "run", "sh"},
	"bash": {"test", "run", "sh"},
	"go":   {"go"},
}

// readBlocks returns the file's shell and Go blocks, and an error for each block without a mark that fits the
// language.
func readBlocks(path string) ([]block, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var (
		blocks []block
		errs   []error
		mark   string // the comment last seen, if nothing followed it
		open   *block
	)
	for i, line := range strings.Split(string(data), "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case open != nil && trimmed == "```":
			if marks, ours := marksOf[open.lang]; ours {
				if !slices.Contains(marks, open.mark) {
					errs = append(errs, fmt.Errorf("%s: nobody runs this %s block: put <!-- ci: %s --> before it",
						open.at, open.lang, strings.Join(marks, " -->, or <!-- ci: ")))
				}
				blocks = append(blocks, *open)
			}
			open = nil
		case open != nil:
			open.text += line + "\n"
		case strings.HasPrefix(trimmed, "```"):
			open = &block{at: fmt.Sprintf("%s:%d", path, i+1), lang: strings.TrimPrefix(trimmed, "```")}
			open.mark, open.params, _ = strings.Cut(mark, " ")
			mark = ""
		case strings.HasPrefix(trimmed, "<!-- ci:") && strings.HasSuffix(trimmed, "-->"):
			mark = strings.TrimSpace(trimmed[len("<!-- ci:") : len(trimmed)-len("-->")])
		case trimmed != "":
			mark = ""
		}
	}
	return blocks, errors.Join(errs...)
}

func printCommands(blocks []block, mark string) error {
	found := false
	for _, b := range blocks {
		if b.mark == mark {
			fmt.Print(b.text)
			found = true
		}
	}
	if !found {
		return fmt.Errorf("no block has the mark <!-- ci: %s -->", mark)
	}
	return nil
}
