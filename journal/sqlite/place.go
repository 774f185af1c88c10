package sqlite

import (
	"fmt"
	"io/fs"
	"os"
	"sync"

	"github.com/onceward/onceward/journal/sqlite/internal/location"
	"github.com/onceward/onceward/journal/sqlite/internal/rows"
)

// place is a path at which a file is open, or is being opened or closed. Callers that wait for that, for
// example on a disk that hangs, do not delay other places.
type place struct {
	path string
	info fs.FileInfo // of the file when it was first wanted

	mu      sync.Mutex   // held while the file is opened or closed
	driver  *rows.Driver // nil: it is not open
	commits *commits
	users   int

	wanted int        // how many have the file or wait for it; files.mu
	made   []*os.File // closed with the file: else SQLite would lose its locks; files.mu
}

// files are the places by real path: two writers in one process would get in
// each other's way, and lose each other's POSIX locks.
var files = struct {
	mu     sync.Mutex // held for nothing that waits for a disk
	byPath map[string]*place
}{byPath: make(map[string]*place)}

// acquire returns the place of a file, which it opens if it is not open yet.
func acquire(path string, opts Options) (*place, error) {
	var made *os.File
	real, err := location.Existing(path)
	if !opts.Existing {
		real, made, err = location.Create(path)
	}
	if err != nil {
		return nil, err
	}
	p, err := want(real, made)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.driver != nil {
		err = p.driver.Own(opts.rows())
	} else if err = location.OneName(real); err == nil {
		p.driver, err = openFile(real, opts)
		p.commits = new(commits)
	}
	if err != nil {
		p.leave()
		return nil, err
	}
	p.users++
	return p, nil
}

// want returns the place of a real path. It is location.OneName, too, for a file that is open in
// this process, wherever its links can't be counted.
func want(real string, made *os.File) (*place, error) {
	info, err := os.Stat(real)
	if err != nil {
		return nil, fmt.Errorf("journal %s: %w", real, err)
	}
	files.mu.Lock()
	defer files.mu.Unlock()
	p, ok := files.byPath[real]
	if !ok {
		for path, other := range files.byPath {
			if os.SameFile(info, other.info) {
				return nil, fmt.Errorf("%w: %s is a second name of %s, which is open; give that path", ErrSecondName, real, path)
			}
		}
		p = &place{path: real, info: info}
		files.byPath[real] = p
	}
	p.wanted++
	if made != nil {
		p.made = append(p.made, made)
	}
	return p, nil
}

// leave is for callers that wanted the place and do not have the file any more.
func (p *place) leave() {
	files.mu.Lock()
	defer files.mu.Unlock()
	if p.wanted--; p.wanted > 0 {
		return
	}
	delete(files.byPath, p.path)
	for _, f := range p.made {
		_ = f.Close() // nothing was written to it
	}
}

// release is for callers that have the file, and do not need it any more.
func (p *place) release() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.leave()
	if p.users--; p.users > 0 {
		return nil
	}
	d := p.driver
	p.driver = nil
	return d.Close()
}
