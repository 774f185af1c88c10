//go:build unix

package sqlite_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// disk remembers, in order, what SQLite did to the files of one journal, when it had
// them synced, what lay beside them, and what callers were told meanwhile. So it can
// say what a loss of power at any moment would have left.
//
// The sidecar and the sessions' files are not SQLite's: they are looked at whenever
// something happens to those that are.
type disk struct {
	path  string
	stop  func()
	first map[string][]byte // what was there before
	lay   []diskEvent       // what lay beside it

	mu       sync.Mutex
	happened *sync.Cond
	events   []diskEvent
	side     string
	others   string // names of sessions' files

	// fault, if there is one, returns another code than SQLITE_OK for what is to
	// fail. A sync that fails takes with it what was not synced before: the kernel
	// does not keep it for the next one, but reports it once to everybody who has the
	// file open (https://lwn.net/Articles/752063/).
	fault atomic.Pointer[func(what diskDid, file string) int32]
	open  map[uintptr]*handle
	// lies tells which syncs report success and do nothing.
	lies func(file string) bool
}

type diskDid int

const (
	wrote diskDid = iota
	truncated
	removed
	synced    // what was done before the event since
	notSynced // likewise: that sync failed
	lay       // the sidecar, and sessions' files, from here on
	told      // a caller
)

type diskEvent struct {
	did    diskDid
	file   string // its suffix
	offset int64  // or size
	data   []byte
	since  int // synced: which writes it covers

	side     string
	sessions []string
	say      func(known map[string]promise) // told
}

// record has a disk remember what is done to the journal at path from now on, until
// the test ends. What is there already is durable.
func record(t *testing.T, path string) *disk {
	t.Helper()
	d := &disk{path: path, open: make(map[uintptr]*handle)}
	d.happened = sync.NewCond(&d.mu)
	d.first = map[string][]byte{"": nil} // it is made, and durable, before SQLite gets to see it
	for _, suffix := range []string{"", "-wal", "-journal"} {
		if content, err := os.ReadFile(path + suffix); err == nil {
			d.first[suffix] = content
		}
	}
	d.look()
	d.lay, d.events = d.events, nil
	d.stop = watch(d)
	t.Cleanup(d.stop)
	return d
}

func (d *disk) watches(name string) bool {
	_, ok := beside(d.path, name)
	return ok
}

func (d *disk) append(e diskEvent) {
	d.look()
	d.events = append(d.events, e)
	d.happened.Broadcast()
}

// look notes what lies beside the journal, if it has changed.
func (d *disk) look() {
	side, _ := os.ReadFile(d.path + "-sidecar")
	entries, _ := os.ReadDir(filepath.Dir(d.path))
	var sessions []string
	for _, entry := range entries {
		if suffix, ok := strings.CutPrefix(entry.Name(), filepath.Base(d.path)); ok && strings.HasPrefix(suffix, "-session-") {
			sessions = append(sessions, suffix)
		}
	}
	others := strings.Join(sessions, " ")
	if string(side) == d.side && others == d.others {
		return
	}
	d.side, d.others = string(side), others
	d.events = append(d.events, diskEvent{did: lay, side: d.side, sessions: sessions})
}

// tell notes what a caller was told.
func (d *disk) tell(say func(known map[string]promise)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.append(diskEvent{did: told, say: say})
}

// more waits until so much more has happened, or the context ends.
func (d *disk) more(ctx context.Context, events int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := len(d.events)
	defer context.AfterFunc(ctx, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.happened.Broadcast()
	})()
	for len(d.events) < before+events && ctx.Err() == nil {
		d.happened.Wait()
	}
	return ctx.Err() == nil
}

type handle struct {
	file string
	owed int32 // what its next sync reports
}

func (d *disk) opened(address uintptr, name string) {
	file, _ := beside(d.path, name)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open[address] = &handle{file: file}
}

func (d *disk) closed(address uintptr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, address)
}

func (d *disk) failing(what diskDid, file string) int32 {
	if fault := d.fault.Load(); fault != nil {
		return (*fault)(what, file)
	}
	return sqlite3.SQLITE_OK
}

// change does something to a file, and notes it afterwards: a sync that begins then
// covers it.
func (d *disk) change(name string, e diskEvent, do func() int32) int32 {
	e.file, _ = beside(d.path, name)
	if rc := d.failing(e.did, e.file); rc != sqlite3.SQLITE_OK {
		return rc
	}
	rc := do()
	if rc == sqlite3.SQLITE_OK {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.append(e)
	}
	return rc
}

func (d *disk) write(name string, offset int64, data []byte, do func() int32) int32 {
	return d.change(name, diskEvent{did: wrote, offset: offset, data: bytes.Clone(data)}, do)
}

func (d *disk) truncate(name string, size int64, do func() int32) int32 {
	return d.change(name, diskEvent{did: truncated, offset: size}, do)
}

func (d *disk) remove(name string, do func() int32) int32 {
	return d.change(name, diskEvent{did: removed}, do)
}

func (d *disk) sync(address uintptr, name string) int32 {
	file, _ := beside(d.path, name)
	d.mu.Lock()
	e := diskEvent{did: synced, file: file, since: len(d.events)}
	rc := d.open[address].owed
	d.open[address].owed = sqlite3.SQLITE_OK
	d.mu.Unlock()
	if rc != sqlite3.SQLITE_OK {
		return rc
	}
	if rc := d.failing(synced, file); rc != sqlite3.SQLITE_OK {
		e.did = notSynced
		d.mu.Lock()
		defer d.mu.Unlock()
		e.since = len(d.events)
		d.append(e)
		for other, h := range d.open {
			if other != address && h.file == file {
				h.owed = rc
			}
		}
		return rc
	}
	if d.lies != nil && d.lies(file) {
		return sqlite3.SQLITE_OK
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if rc = d.open[address].owed; rc != sqlite3.SQLITE_OK {
		d.open[address].owed = sqlite3.SQLITE_OK
		return rc // another sync failed meanwhile, maybe of what this one was to cover
	}
	d.append(e)
	return rc
}

// platter is what a disk holds at one moment.
type platter struct {
	files    map[string]*diskFile
	side     string
	before   string // the sidecar that it replaced: the rename may not be durable
	sessions []string
	gone     []string // sessions' files whose removal may not be durable
	known    map[string]promise
}

type diskFile struct {
	durable []byte
	named   bool // its entry in the directory is durable
	pending []diskEvent
	at      []int // of pending: their numbers
	ghost   *diskFile
}

// platter is what the disk held at first.
func (d *disk) platter(known map[string]promise) *platter {
	p := &platter{files: make(map[string]*diskFile), known: known}
	for suffix, content := range d.first {
		p.files[suffix] = &diskFile{durable: content, named: true}
	}
	for _, e := range d.lay {
		p.does(0, e)
	}
	return p
}

// does takes over the n-th event.
func (p *platter) does(n int, e diskEvent) {
	switch e.did {
	case told:
		e.say(p.known)
		return
	case lay:
		p.before, p.side = p.side, e.side
		still := make(map[string]bool)
		for _, name := range e.sessions {
			still[name] = true
		}
		for _, name := range p.sessions {
			if !still[name] {
				p.gone = append(p.gone, name)
			}
		}
		p.sessions = e.sessions
		return
	}
	f := p.files[e.file]
	if f == nil {
		f = &diskFile{}
		p.files[e.file] = f
	}
	switch e.did {
	case wrote, truncated:
		f.pending, f.at = append(f.pending, e), append(f.at, n)
	case removed:
		p.files[e.file] = &diskFile{ghost: f}
	case synced, notSynced:
		n := 0
		for n < len(f.at) && f.at[n] < e.since {
			if e.did == synced {
				f.durable = f.pending[n].on(f.durable)
			}
			n++
		}
		f.pending, f.at = f.pending[n:], f.at[n:]
		if e.did == synced && !f.named {
			// SQLite has the directory synced with a new file (unixSync).
			for _, f := range p.files {
				f.named, f.ghost = true, nil
			}
		}
	}
}

// on is what a file with this content becomes.
func (e diskEvent) on(content []byte) []byte {
	if e.did == truncated {
		return content[:min(int64(len(content)), e.offset)]
	}
	if end := int(e.offset) + len(e.data); end > len(content) {
		content = append(content, make([]byte, end-len(content))...)
	}
	copy(content[e.offset:], e.data)
	return content
}

// sectorSize is what a disk writes as a whole or not at all.
const sectorSize = 512

// loss says what becomes of what was done and not synced, in a loss of power.
type loss struct {
	random *rand.Rand
	odds   float64 // that a sector was written, or a file truncated; 0: nothing was, 1: everything
	order  bool    // what was done first was written first
}

func (l loss) strikes() bool { return l.odds < 1 && l.random.Float64() >= l.odds }

func (l loss) leaves(f *diskFile) (content []byte, there bool) {
	if f.ghost != nil && l.strikes() {
		return l.leaves(f.ghost)
	}
	if !f.named && (len(f.pending) == 0 || l.strikes()) {
		return nil, false
	}
	content = bytes.Clone(f.durable)
	if l.order {
		rest := 0
		for rest < len(f.pending) && !l.strikes() {
			content = f.pending[rest].on(content)
			rest++
		}
		if rest < len(f.pending) { // one is half done
			content = l.part(f.pending[rest], content)
		}
		return content, true
	}
	for _, e := range f.pending {
		content = l.part(e, content)
	}
	return content, true
}

// part does some of e's sectors.
func (l loss) part(e diskEvent, content []byte) []byte {
	if e.did == truncated {
		if l.strikes() {
			return content
		}
		return e.on(content)
	}
	for start := 0; start < len(e.data); {
		end := min(len(e.data), start+sectorSize-int((e.offset+int64(start))%sectorSize))
		if !l.strikes() {
			content = diskEvent{did: wrote, offset: e.offset + int64(start), data: e.data[start:end]}.on(content)
		}
		start = end
	}
	return content
}

// leave makes the files that are found after a loss of power, in a directory of
// their own, and returns the journal's path.
func (p *platter) leave(t testing.TB, dir string, l loss) string {
	t.Helper()
	path := filepath.Join(dir, "journal.db")
	put := func(suffix string, content []byte) { require.NoError(t, os.WriteFile(path+suffix, content, 0o600)) }
	for suffix, f := range p.files {
		if content, there := l.leaves(f); there {
			put(suffix, content)
		}
	}
	if l.odds < 1 { // what was shared memory is on the disk too
		garbage := make([]byte, 32<<10)
		for i := range garbage {
			garbage[i] = byte(l.random.Uint32())
		}
		put("-shm", garbage)
	}
	side := p.side
	if p.before != "" && identityOf(p.before) == identityOf(side) && l.strikes() {
		side = p.before
	}
	if side != "" {
		put("-sidecar", []byte(side))
	}
	for _, suffix := range p.sessions {
		put(suffix, nil)
	}
	for _, suffix := range p.gone {
		if l.odds < 1 && !l.strikes() {
			put(suffix, nil)
		}
	}
	return path
}

// hearings numbers what hears begins.
var hearings atomic.Int64

// hears commits: a sync that failed beside the writer, in the checkpointer, is reported to the writer too, once, which is
// to whoever commits next. The checkpointer has no more to sync by then.
func hears(ctx context.Context, j *sqlite.Journal, s journal.Session) {
	sqlite.Checkpointed(j)
	_, _ = j.Apply(ctx, generate(fmt.Sprint("hears-", s.ID(), "-", hearings.Add(1)), s))
}

// identityOf is the journal's, in a sidecar's text.
func identityOf(side string) string { return strings.Fields(side)[2] }

// careless is a disk in a directory that nothing is synced to. No test cuts the machine's own power, and a killed process
// loses nothing that it has written. TestMain has one for all directories.
type careless struct{ dir string }

func (c careless) watches(name string) bool { return strings.HasPrefix(name, c.dir) }

func (careless) opened(uintptr, string)                                   {}
func (careless) closed(uintptr)                                           {}
func (careless) write(_ string, _ int64, _ []byte, do func() int32) int32 { return do() }
func (careless) truncate(_ string, _ int64, do func() int32) int32        { return do() }
func (careless) remove(_ string, do func() int32) int32                   { return do() }
func (careless) sync(uintptr, string) int32                               { return sqlite3.SQLITE_OK }
