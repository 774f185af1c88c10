package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The environment variables that control a test binary and the processes that it starts: the number of the change to
// make, and the file that records the blocks reached.
const (
	chosenVariable  = "ONCEWARD_MUTANT"
	reachedVariable = "ONCEWARD_MUTANT_REACHED"
)

// binary is a package with all changes compiled in, built for its own tests and those of other packages. One change
// is made at a time.
type binary struct {
	temp, dir string
	programs  []program   // the package's own tests first
	functions []*function // every function with a change
	mutants   map[int]mutant
	finders   finders
}

// program is the tests of one package.
type program struct{ path, dir string }

// build compiles a package's tests, and those of others, with every mutant beside the code. A changed function first
// asks which of its copies is to run instead of it.
func build(dir string, others []string, temp string, functions []*function, all []mutant) (*binary, error) {
	b := &binary{temp: temp, dir: dir, functions: functions, mutants: map[int]mutant{}}
	for i, of := range append([]string{dir}, others...) {
		b.programs = append(b.programs, program{path: filepath.Join(temp, fmt.Sprintf("mutants%d.test", i)), dir: of})
	}
	for i, m := range all {
		b.mutants[i+1] = m
	}
	for {
		overlay, err := b.overlay()
		if err != nil {
			return nil, err
		}
		told, err := b.compile(overlay)
		var exit *exec.ExitError
		switch {
		case err == nil:
			return b, nil
		case !errors.As(err, &exit):
			return nil, err
		}
		before := len(b.mutants)
		for _, match := range regexp.MustCompile(`mutant(\d+)\.go:`).FindAllSubmatch(told, -1) {
			number, _ := strconv.Atoi(string(match[1]))
			delete(b.mutants, number)
		}
		if len(b.mutants) == before {
			return nil, fmt.Errorf("%s does not compile:\n%s", dir, told)
		}
	}
}

// compile makes every program, and returns what the compiler said of the one that failed.
func (b *binary) compile(overlay string) (told []byte, err error) {
	for _, p := range b.programs {
		test := exec.Command("go", "test", "-c", "-vet=off", "-gcflags="+dirArgument(b.dir)+"=-e", "-ldflags=-s -w", "-overlay", overlay, "-o", p.path, dirArgument(p.dir))
		if told, err = test.CombinedOutput(); err != nil {
			return told, err
		}
	}
	return nil, nil
}

func dirArgument(dir string) string {
	if dir == "." || strings.HasPrefix(dir, "./") || filepath.IsAbs(dir) {
		return dir
	}
	return "./" + dir
}

// overlay writes the changed files and returns the file that tells the compiler of them.
func (b *binary) overlay() (string, error) {
	copies := map[*function][]int{}
	for _, number := range slices.Sorted(maps.Keys(b.mutants)) {
		in := b.mutants[number].in
		copies[in] = append(copies[in], number)
	}
	replace := map[string]string{}
	write := func(file string, text string) error {
		path, err := filepath.Abs(file)
		if err != nil {
			return err
		}
		to := filepath.Join(b.temp, fmt.Sprintf("overlay%d.go", len(replace)))
		replace[path] = to
		return os.WriteFile(to, []byte(text), 0o600)
	}
	blocks := 0
	for i := 0; i < len(b.functions); {
		file, text, done := b.functions[i].file, b.functions[i].text, 0
		var code, changed strings.Builder
		for ; i < len(b.functions) && b.functions[i].file == file; i++ {
			f := b.functions[i]
			done = f.asking(&code, done, blocks, copies[f])
			blocks += len(f.blocks)
			for _, m := range copies[f] {
				fmt.Fprintf(&changed, "\n//line mutant%d.go:1\n%s\n", m, b.mutants[m].copied(m))
			}
		}
		code.Write(text[done:])
		if err := write(file, code.String()+changed.String()); err != nil {
			return "", err
		}
	}
	pkg := packageOf(b.functions[0].text)
	if err := write(filepath.Join(b.dir, "mutants_chosen.go"), "package "+pkg+fmt.Sprintf(chosenCode, blocks)); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(b.temp, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}

func packageOf(text []byte) string {
	return string(regexp.MustCompile(`(?m)^package (\w+)`).FindSubmatch(text)[1])
}

// chosenCode tells a function which of its copies is to run, and notes which blocks were reached.
const chosenCode = `

import (
	"os"
	"strconv"
	"sync/atomic"
)

var (
	mutantChosen, _ = strconv.Atoi(os.Getenv("` + chosenVariable + `"))
	mutantReached   = os.Getenv("` + reachedVariable + `")
	mutantNoted     [%d]atomic.Bool
)

func mutantAt(block int) {
	if mutantReached != "" {
		mutantNote(block)
	}
}

func mutantNote(block int) {
	if mutantNoted[block].CompareAndSwap(false, true) {
		if f, err := os.OpenFile(mutantReached, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600); err == nil {
			f.WriteString(strconv.Itoa(block) + "\n")
			f.Close()
		}
	}
}
`

// asking writes the file's text from a place up to the function's end, and returns the end's position. In the body it
// writes the choice among the copies. In each block it writes a note that the block was reached. The first block has
// the number first. Unnamed parameters and receivers get a name, since they are handed on.
func (f *function) asking(code *strings.Builder, from, first int, copies []int) int {
	upTo := func(to int) { code.Write(f.text[from:to]); from = to }
	unnamed := 0
	named := func(fields *ast.FieldList) (names []string) {
		if fields == nil {
			return nil
		}
		for _, field := range fields.List {
			dots := ""
			if _, ok := field.Type.(*ast.Ellipsis); ok {
				dots = "..."
			}
			if len(field.Names) == 0 {
				unnamed++
				name := fmt.Sprintf("mutantUnnamed%d", unnamed)
				upTo(f.at(field.Type.Pos()))
				code.WriteString(name + " ")
				names = append(names, name+dots)
			}
			for _, id := range field.Names {
				name := id.Name
				if name == "_" {
					unnamed++
					name = fmt.Sprintf("mutantUnnamed%d", unnamed)
					upTo(f.at(id.Pos()))
					code.WriteString(name)
					from = f.at(id.End())
				}
				names = append(names, name+dots)
			}
		}
		return names
	}
	receiver := ""
	if names := named(f.decl.Recv); len(names) > 0 {
		receiver = names[0] + "."
	}
	var types []string
	if f.decl.Type.TypeParams != nil {
		for _, field := range f.decl.Type.TypeParams.List {
			for _, id := range field.Names {
				types = append(types, id.Name)
			}
		}
	}
	instance := ""
	if len(types) > 0 {
		instance = "[" + strings.Join(types, ", ") + "]"
	}
	arguments := strings.Join(named(f.decl.Type.Params), ", ")
	upTo(f.blocks[0].start)
	fmt.Fprintf(code, " mutantAt(%d); switch mutantChosen {", first)
	for _, m := range copies {
		call := fmt.Sprintf("%smutant%d%s(%s)", receiver, m, instance, arguments)
		if f.decl.Type.Results != nil {
			fmt.Fprintf(code, "case %d: return %s;", m, call)
		} else {
			fmt.Fprintf(code, "case %d: %s; return;", m, call)
		}
	}
	code.WriteString("};")
	for i, inner := range f.blocks[1:] {
		upTo(inner.start)
		fmt.Fprintf(code, " mutantAt(%d);", first+1+i)
	}
	upTo(f.blocks[0].end)
	return from
}

// copied is the function with the change, under a name of its own.
func (m mutant) copied(number int) string {
	f := m.in
	name := f.decl.Name
	return string(f.text[f.at(f.decl.Pos()):f.at(name.Pos())]) + fmt.Sprintf("mutant%d", number) +
		string(f.text[f.at(name.End()):m.start]) + m.to + string(f.text[m.end:f.at(f.decl.End())])
}
