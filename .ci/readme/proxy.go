package main

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// published is the checkout as a module proxy would serve it
// (https://go.dev/ref/mod#goproxy-protocol), so that a reader's go get can be tried
// before there is a release.
type published struct {
	module  string
	version string
	proxy   string // folder, for a file:// URL
	cache   string // GOMODCACHE
}

// publish writes the proxy's files below dir. The version is new, since the module
// cache would give an old one's content again.
func publish(checkout, dir string) (*published, error) {
	p := &published{version: "v0.0." + time.Now().UTC().Format("20060102150405"), proxy: dir}
	var err error
	if p.module, err = output(checkout, "go", "list", "-m"); err != nil {
		return nil, err
	}
	if p.cache, err = output(checkout, "go", "env", "GOMODCACHE"); err != nil {
		return nil, err
	}
	info, err := json.Marshal(map[string]any{"Version": p.version, "Time": time.Now().UTC()})
	if err != nil {
		return nil, err
	}
	gomod, err := os.ReadFile(filepath.Join(checkout, "go.mod"))
	if err != nil {
		return nil, err
	}
	versions := filepath.Join(dir, filepath.FromSlash(p.module), "@v")
	if err := os.MkdirAll(versions, 0o700); err != nil {
		return nil, err
	}
	for name, content := range map[string][]byte{
		"list":              []byte(p.version + "\n"),
		p.version + ".info": info,
		p.version + ".mod":  gomod,
	} {
		if err := os.WriteFile(filepath.Join(versions, name), content, 0o600); err != nil {
			return nil, err
		}
	}
	return p, p.zip(checkout, filepath.Join(versions, p.version+".zip"))
}

// zip packs the module's regular files: without hidden folders, which hold nothing
// that a user builds, and without modules of their own.
func (p *published) zip(checkout, path string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := zip.NewWriter(f)
	defer func() { err = errors.Join(err, w.Close()) }()
	return filepath.WalkDir(checkout, func(at string, entry fs.DirEntry, err error) error {
		if err != nil || at == checkout {
			return err
		}
		if entry.IsDir() {
			_, own := os.Stat(filepath.Join(at, "go.mod"))
			if own == nil || strings.HasPrefix(entry.Name(), ".") {
				return filepath.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		relative, err := filepath.Rel(checkout, at)
		if err != nil {
			return err
		}
		to, err := w.Create(p.module + "@" + p.version + "/" + filepath.ToSlash(relative))
		if err != nil {
			return err
		}
		from, err := os.Open(at)
		if err != nil {
			return err
		}
		defer from.Close()
		_, err = io.Copy(to, from)
		return err
	})
}

// environment makes go get find the module, and everything else where it did.
func (p *published) environment() []string {
	return append(os.Environ(),
		"GOPROXY=file://"+filepath.ToSlash(p.proxy)+","+goEnv("GOPROXY"),
		"GONOSUMDB="+strings.Trim(goEnv("GONOSUMDB")+","+p.module, ","))
}

func goEnv(name string) string {
	value, err := output(".", "go", "env", name)
	if err != nil {
		return ""
	}
	return value
}

// forget takes the version out of the module cache again.
func (p *published) forget() error {
	var errs []error
	extracted := filepath.Join(p.cache, filepath.FromSlash(p.module)+"@"+p.version)
	errs = append(errs, filepath.WalkDir(extracted, func(at string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && entry.IsDir() {
			err = os.Chmod(at, 0o700) // the cache is read-only
		}
		return err
	}), os.RemoveAll(extracted))
	downloads, err := filepath.Glob(filepath.Join(p.cache, "cache", "download", filepath.FromSlash(p.module), "@v", p.version+".*"))
	errs = append(errs, err)
	for _, file := range downloads {
		errs = append(errs, os.Remove(file))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("the module cache keeps %s@%s: %w", p.module, p.version, err)
	}
	return nil
}
