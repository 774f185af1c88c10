package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// mutated are the packages that decide. Their mutants are sampled.
var mutated = []string{".", "./journal", "./journal/sqlite", "./internal/tables", "./internal/lookup", "./internal/secret", "./internal/fingerprint"}

var (
	packageLine = regexp.MustCompile(`(?m)^package (\w+)$`)
	declaration = regexp.MustCompile(`(?m)^(?:func|var) (\([^)]*\) )?(\w+)`)
	work        = regexp.MustCompile(`^func (?:Test[A-Z]\w*\(\w+ \*testing\.T\)|Fuzz\w*\(\w+ \*testing\.F\)) \{`)
	reference   = regexp.MustCompile(`(?:\b(\w+)\.)?\b([A-Za-z]\w*)`)
)

// declared is a function or a variable of a package.
type declared struct {
	pkg, dir, name, text string
	soaks                bool // it uses internal/soak, itself or through what it refers to
}

// find returns the items below the working directory: tests that use internal/soak, fuzz targets, and mutants. It reads
// the sources by their words alone, so that it may also take a test for one that uses internal/soak.
func find() (all []*item, err error) {
	var found []*declared
	err = filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && file != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata"):
			return filepath.SkipDir
		case !strings.HasSuffix(file, ".go") || strings.HasPrefix(file, "internal/soak/"):
			return nil
		}
		source, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		dir := "./" + filepath.Dir(file)
		if dir == "./." {
			dir = "."
		}
		found = append(found, declarations(string(source), dir)...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	spread(found)
	programs := map[string]*program{}
	for _, d := range found {
		i := &item{kind: fuzz, dir: d.dir, name: d.name}
		if strings.HasPrefix(d.name, "Test") {
			i.kind = test
		}
		if !work.MatchString(d.text) || i.kind == test && !d.soaks {
			continue
		}
		key := string(i.kind) + d.dir
		if programs[key] == nil {
			programs[key] = &program{}
		}
		i.program = programs[key]
		all = append(all, i)
	}
	one := &program{}
	for _, dir := range mutated {
		all = append(all, &item{kind: mutants, dir: dir, name: "mutants", program: one})
	}
	return all, nil
}

// declarations splits a file.
func declarations(source, dir string) (all []*declared) {
	pkg := packageLine.FindStringSubmatch(source)
	starts := declaration.FindAllStringSubmatchIndex(source, -1)
	for n, at := range starts {
		end := len(source)
		if n+1 < len(starts) {
			end = starts[n+1][0]
		}
		d := &declared{dir: dir, pkg: strings.TrimSuffix(pkg[1], "_test"), name: source[at[4]:at[5]], text: source[at[0]:end]}
		if d.pkg == "main" { // there are several
			d.pkg = dir
		}
		d.soaks = strings.Contains(d.text, "soak.")
		all = append(all, d)
	}
	return all
}

// spread marks what refers to a declaration that is marked.
func spread(all []*declared) {
	users := map[string][]*declared{}
	for _, d := range all {
		for _, word := range reference.FindAllStringSubmatch(d.text, -1) {
			users[d.pkg+"."+word[2]] = append(users[d.pkg+"."+word[2]], d)
			if word[1] != "" {
				users[word[1]+"."+word[2]] = append(users[word[1]+"."+word[2]], d)
			}
		}
	}
	var next []*declared
	for _, d := range all {
		if d.soaks {
			next = append(next, d)
		}
	}
	for ; len(next) > 0; next = next[1:] {
		for _, user := range users[next[0].pkg+"."+next[0].name] {
			if !user.soaks {
				user.soaks = true
				next = append(next, user)
			}
		}
	}
}
