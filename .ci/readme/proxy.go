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

// published are the checkout's modules in a module proxy's form (https://go.dev/ref/mod#goproxy-protocol), to try a
// reader's go get before there is a release.
type published struct {
	modules []string // their paths
	version string
	proxy   string // folder, for a file:// URL
	cache   string // GOMODCACHE
}

// released are the folders of the modules that users import or install. Each requires only earlier ones.
var released = []string{".", "journal/postgres", "journal/mysql", "otelonceward", "console", "cmd/onceward", "cmd/onceward-proxy"}

// publish writes the modules' proxy files in these folders below dir. The version is new, because the module
// cache would return an old one's content again.
func publish(checkout, dir string, folders ...string) (*published, error) {
	p := &published{version: "v0.0." + time.Now().UTC().Format("20060102150405"), proxy: dir}
	var err error
	if p.cache, err = output(checkout, "go", "env", "GOMODCACHE"); err != nil {
		return nil, err
	}
	for _, folder := range folders {
		if err := p.add(filepath.Join(checkout, folder)); err != nil {
			return nil, fmt.Errorf("publish %s: %w", folder, err)
		}
	}
	return p, nil
}

func (p *published) add(folder string) error {
	module, err := output(folder, "go", "list", "-m")
	if err != nil {
		return err
	}
	p.modules = append(p.modules, module)
	info, err := json.Marshal(map[string]any{"Version": p.version, "Time": time.Now().UTC()})
	if err != nil {
		return err
	}
	versions := filepath.Join(p.proxy, filepath.FromSlash(module), "@v")
	if err := os.MkdirAll(versions, 0o700); err != nil {
		return err
	}
	gomod, err := p.goMod(folder, filepath.Join(versions, p.version+".mod"))
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{"list": []byte(p.version + "\n"), p.version + ".info": info} {
		if err := os.WriteFile(filepath.Join(versions, name), content, 0o600); err != nil {
			return err
		}
	}
	return p.zip(folder, module, filepath.Join(versions, p.version+".zip"), gomod)
}

// goMod writes the go.mod of a release of the module in folder: without replacements, and with the versions of the
// other modules published with it.
func (p *published) goMod(folder, to string) ([]byte, error) {
	gomod, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(to, gomod, 0o600); err != nil {
		return nil, err
	}
	described, err := output(folder, "go", "mod", "edit", "-json")
	if err != nil {
		return nil, err
	}
	var file struct {
		Replace []struct{ Old struct{ Path string } }
	}
	if err := json.Unmarshal([]byte(described), &file); err != nil {
		return nil, err
	}
	edit := []string{"mod", "edit"}
	for _, r := range file.Replace {
		edit = append(edit, "-dropreplace="+r.Old.Path, "-require="+r.Old.Path+"@"+p.version)
	}
	if len(edit) > 2 {
		if _, err := output(folder, "go", append(edit, to)...); err != nil {
			return nil, err
		}
	}
	return os.ReadFile(to)
}

// zip packs the module's regular files: without hidden folders, which hold nothing
// that a user builds, and without modules of their own.
func (p *published) zip(folder, module, path string, gomod []byte) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := zip.NewWriter(f)
	defer func() { err = errors.Join(err, w.Close()) }()
	return filepath.WalkDir(folder, func(at string, entry fs.DirEntry, err error) error {
		if err != nil || at == folder {
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
		relative, err := filepath.Rel(folder, at)
		if err != nil {
			return err
		}
		to, err := w.Create(module + "@" + p.version + "/" + filepath.ToSlash(relative))
		if err != nil {
			return err
		}
		if relative == "go.mod" {
			_, err = to.Write(gomod)
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
		"GONOSUMDB="+strings.Trim(goEnv("GONOSUMDB")+","+strings.Join(p.modules, ","), ","))
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
	for _, module := range p.modules {
		if err := p.forgetModule(filepath.FromSlash(module)); err != nil {
			errs = append(errs, fmt.Errorf("the module cache keeps %s@%s: %w", module, p.version, err))
		}
	}
	return errors.Join(errs...)
}

func (p *published) forgetModule(module string) error {
	var errs []error
	extracted := filepath.Join(p.cache, module+"@"+p.version)
	errs = append(errs, filepath.WalkDir(extracted, func(at string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && entry.IsDir() {
			err = os.Chmod(at, 0o700) // the cache is read-only
		}
		return err
	}), os.RemoveAll(extracted))
	downloads, err := filepath.Glob(filepath.Join(p.cache, "cache", "download", module, "@v", p.version+".*"))
	errs = append(errs, err)
	for _, file := range downloads {
		errs = append(errs, os.Remove(file))
	}
	return errors.Join(errs...)
}
