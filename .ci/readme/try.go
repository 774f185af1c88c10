package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// try does what a reader would: the commands in an empty module, one after the
// other, and then the Go with what the commands have installed.
func try(blocks []block) (err error) {
	checkout, err := os.Getwd()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "readme-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	module, err := publish(checkout, filepath.Join(dir, "proxy"), ".", "journal/postgres", "journal/mysql")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, module.forget()) }()
	shop := place{dir: filepath.Join(dir, "shop"), env: module.environment()}
	if err := os.Mkdir(shop.dir, 0o700); err != nil {
		return err
	}
	if err := shop.run("go", "mod", "init", "example.com/shop"); err != nil {
		return err
	}

	var errs []error
	for _, b := range blocks {
		if b.mark == "sh" {
			fmt.Printf("# %s\n%s", b.at, b.text)
			if err := shop.run("bash", "-euo", "pipefail", "-c", b.text); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", b.at, err))
			}
		}
	}
	for _, b := range blocks {
		if b.mark == "go" {
			fmt.Printf("# %s\n", b.at)
			if err := shop.write(b); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", b.at, err))
			}
		}
	}
	return errors.Join(append(errs, shop.run("go", "vet", "./..."))...) // once, as it reads all that they import
}

// tryModules publishes each module like a release, and gets the module like a user: in an empty module, or by go
// install for a command.
func tryModules() (err error) {
	checkout, err := os.Getwd()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "modules-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	all, err := publish(checkout, filepath.Join(dir, "proxy"), released...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, all.forget()) }()
	for i, module := range all.modules {
		user := place{dir: filepath.Join(dir, fmt.Sprintf("user%d", i)), env: append(all.environment(), "GOBIN="+dir)}
		at := module + "@" + all.version
		fmt.Println("#", at)
		if err := os.Mkdir(user.dir, 0o700); err != nil {
			return err
		}
		commands := [][]string{{"mod", "init", "example.com/user"}, {"get", at}, {"build", module}}
		if strings.Contains(module, "/cmd/") {
			commands = [][]string{{"install", at}}
		}
		for _, command := range commands {
			if err := user.run("go", command...); err != nil {
				return fmt.Errorf("%s: %w", at, err)
			}
		}
	}
	return nil
}

// place is where commands are run.
type place struct {
	dir string
	env []string
}

// write makes a package of a block. The package's folder is named after the place of the block, which errors then show.
func (p place) write(b block) error {
	source, err := program(b)
	if err != nil {
		return err
	}
	folder := filepath.Join(p.dir, strings.NewReplacer("/", "-", ":", "-").Replace(b.at))
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "main.go"), source, 0o600)
}

func (p place) run(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = p.dir, p.env, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func output(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return strings.TrimSpace(string(out)), nil
}
