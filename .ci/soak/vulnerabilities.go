package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
)

// govulncheck is the name of the search for known vulnerabilities, for -only.
const govulncheck = "govulncheck"

// vulnerabilities searches every module for packages with a known vulnerability. It returns an error for each module
// that imports such a package, and for the first module that can't be searched. db is the address of the database.
//
// govulncheck's usual search, for calls, would take gigabytes of memory for SQLite, which is translated C. A search for
// packages finds all that, and more.
func vulnerabilities(ctx context.Context, temp, db string, out io.Writer) error {
	program := filepath.Join(temp, govulncheck)
	build := exec.CommandContext(ctx, "go", "build", "-modfile=.ci/tools.mod", "-o", program, "golang.org/x/vuln/cmd/govulncheck")
	if told, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("govulncheck does not build: %w\n%s", err, told)
	}
	folders, err := modules()
	if err != nil {
		return err
	}
	var errs []error
	for _, folder := range folders {
		search := exec.CommandContext(ctx, program, "-db", db, "-scan", "package", "-test", "./...")
		search.Dir = folder
		told, err := search.CombinedOutput()
		fmt.Fprintf(out, "govulncheck, module in %s\n%s\n", folder, told)
		var ended *exec.ExitError
		switch {
		case errors.As(err, &ended) && ended.ExitCode() == 3: // its documented code for findings
			errs = append(errs, fmt.Errorf("the module in %s imports a package with a known vulnerability", folder))
		case err != nil:
			return errors.Join(append(errs, fmt.Errorf("govulncheck can't search the module in %s, and searched none after it: %w. "+
				"The database is %s; -vulndb names another, such as a copy: file:///…", folder, err, db))...)
		}
	}
	return errors.Join(errs...)
}

// modules returns the folders of the modules below the working directory.
func modules() (folders []string, err error) {
	err = filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && file != "." && strings.HasPrefix(entry.Name(), "."):
			return filepath.SkipDir
		case entry.Name() == "go.mod":
			folders = append(folders, filepath.Dir(file))
		}
		return nil
	})
	return folders, err
}
