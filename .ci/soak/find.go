package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
)

// declared is a package's function or variable.
type declared struct {
	pkg, dir, name string
	kind           kind     // "": neither a test nor a fuzz target
	test           bool     // only tests of its package see it
	uses           []string // keys of others, as far as they are used by name; methods are left out
	soaks          bool     // it uses internal/soak, itself or through others
}

func (d *declared) key() string { return key(d.pkg, d.name, d.test) }

func key(pkg, name string, test bool) string { return fmt.Sprint(pkg, ".", name, " ", test) }

// find returns the items below the working directory: tests that use internal/soak, and fuzz targets.
func find() (all []*item, err error) {
	var found []*declared
	err = filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && file != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata"):
			return filepath.SkipDir
		case !strings.HasSuffix(file, ".go"):
			return nil
		}
		more, err := declarations(file, nil)
		found = append(found, more...)
		return err
	})
	if err != nil {
		return nil, err
	}
	spread(found)
	programs := map[string]*program{}
	for _, d := range found {
		if d.kind == fuzz || d.kind == test && d.soaks {
			of := string(d.kind) + d.dir
			if programs[of] == nil {
				programs[of] = &program{}
			}
			all = append(all, &item{kind: d.kind, dir: d.dir, name: d.name, program: programs[of]})
		}
	}
	return all, nil
}

// declarations reads a file, or the source instead if the source is not nil.
func declarations(file string, source any) (all []*declared, err error) {
	tree, err := parser.ParseFile(token.NewFileSet(), file, source, 0)
	if err != nil {
		return nil, err
	}
	dir := "./" + filepath.ToSlash(filepath.Dir(file))
	if dir == "./." {
		dir = "."
	}
	pkg := strings.TrimSuffix(tree.Name.Name, "_test")
	if pkg == "main" { // there are several
		pkg = dir
	}
	imports := map[string]string{}
	for _, spec := range tree.Imports {
		of := path.Base(strings.Trim(spec.Path.Value, `"`))
		imports[of] = of
		if spec.Name != nil {
			imports[spec.Name.Name] = of
		}
	}
	test := strings.HasSuffix(file, "_test.go")
	add := func(name string, node ast.Node, of kind) {
		d := &declared{pkg: pkg, dir: dir, name: name, kind: of, test: test}
		var note func(n ast.Node) bool
		note = func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				x, ok := n.X.(*ast.Ident)
				if ok && x.Obj == nil && imports[x.Name] != "" {
					d.soaks = d.soaks || imports[x.Name] == "soak"
					d.uses = append(d.uses, key(imports[x.Name], n.Sel.Name, false))
				} else {
					ast.Inspect(n.X, note)
				}
				return false
			case *ast.Ident:
				if n.Obj == nil || n.Obj == tree.Scope.Lookup(n.Name) { // it is no local variable
					d.uses = append(d.uses, key(pkg, n.Name, false), key(pkg, n.Name, test))
				}
			}
			return true
		}
		ast.Inspect(node, note)
		all = append(all, d)
	}
	for _, decl := range tree.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				add(d.Name.Name, d, kindOf(d))
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok {
					for _, name := range v.Names {
						add(name.Name, v, "")
					}
				}
			}
		}
	}
	return all, nil
}

// kindOf tells tests and fuzz targets by their names and parameters.
func kindOf(d *ast.FuncDecl) kind {
	if len(d.Type.Params.List) != 1 {
		return ""
	}
	pointer, _ := d.Type.Params.List[0].Type.(*ast.StarExpr)
	if pointer == nil {
		return ""
	}
	of, _ := pointer.X.(*ast.SelectorExpr)
	switch {
	case of != nil && of.Sel.Name == "T" && strings.HasPrefix(d.Name.Name, "Test"):
		return test
	case of != nil && of.Sel.Name == "F" && strings.HasPrefix(d.Name.Name, "Fuzz"):
		return fuzz
	}
	return ""
}

// spread marks each declaration that uses a marked one.
func spread(all []*declared) {
	users := map[string][]*declared{}
	var next []*declared
	for _, d := range all {
		for _, of := range d.uses {
			users[of] = append(users[of], d)
		}
		if d.soaks {
			next = append(next, d)
		}
	}
	for ; len(next) > 0; next = next[1:] {
		for _, user := range users[next[0].key()] {
			if !user.soaks {
				user.soaks = true
				next = append(next, user)
			}
		}
	}
}
