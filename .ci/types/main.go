// Command types checks the packages' and their tests' types, for the system that GOOS and GOARCH name. It reads
// sources and compiles nothing. Of dependencies it reads the declarations alone. It exits with 1 if it finds errors.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	tests := flag.Bool("test", true, "check tests too")
	flag.Parse()
	if err := run(*tests, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "types:", err)
		os.Exit(1)
	}
}

// listed is a package as go list prints it.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string // from a path in a source to an ImportPath
	DepOnly         bool
	Module          *struct{ GoVersion string }
}

// run checks the packages that match the patterns.
func run(tests bool, patterns []string) error {
	list := exec.Command("go", append([]string{"list", "-deps", fmt.Sprintf("-test=%t", tests), "-json=ImportPath,Dir,GoFiles,ImportMap,DepOnly,Module"}, patterns...)...)
	list.Env = append(os.Environ(), "CGO_ENABLED=0") // cgo's sources would have to be generated
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	env, err := exec.Command("go", "env", "GOARCH").Output()
	if err != nil {
		return fmt.Errorf("go env: %w", err)
	}
	c := &checker{
		sizes: types.SizesFor("gc", strings.TrimSpace(string(env))),
		done:  map[string]*types.Package{"unsafe": types.Unsafe},
	}
	matched := 0
	for dec := json.NewDecoder(bytes.NewReader(out)); ; { // dependencies come first
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if p.ImportPath == "unsafe" || strings.HasSuffix(p.ImportPath, ".test") { // go test generates the latter
			continue
		}
		if err := c.check(p); err != nil {
			return err
		}
		if !p.DepOnly {
			matched++
		}
	}
	if c.errors > 0 {
		return fmt.Errorf("%d types or names are wrong", c.errors)
	}
	if matched == 0 {
		return errors.New("no package matches")
	}
	return nil
}

type checker struct {
	sizes  types.Sizes
	done   map[string]*types.Package // by ImportPath
	errors int
}

func (c *checker) check(p listed) error {
	var (
		files []*ast.File
		fset  = token.NewFileSet()
	)
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	config := types.Config{
		Importer:         importer{c.done, p.ImportMap},
		IgnoreFuncBodies: p.DepOnly,
		Sizes:            c.sizes,
		Error: func(err error) {
			c.errors++
			fmt.Fprintln(os.Stderr, err)
		},
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		config.GoVersion = "go" + p.Module.GoVersion
	}
	path, _, _ := strings.Cut(p.ImportPath, " ")                   // a package's variant for a test has the test behind its path
	c.done[p.ImportPath], _ = config.Check(path, fset, files, nil) // Error has seen the error
	return nil
}

// importer finds one package's imports among the packages that are checked.
type importer struct {
	done map[string]*types.Package
	as   map[string]string
}

func (i importer) Import(path string) (*types.Package, error) {
	if as, ok := i.as[path]; ok {
		path = as
	}
	if found := i.done[path]; found != nil {
		return found, nil
	}
	return nil, fmt.Errorf("go list has no package %s", path)
}
