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

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal/sqlite"
)

// disk remembers, in order, the changes by SQLite to the files of one journal, and its syncs. It also remembers the
// files beside them, and the results that callers got meanwhile. From that it computes what a loss of power at any
// moment would have left.
//
// SQLite does not write the sidecar and the sessions' files. disk checks them whenever SQLite changes its own files.
type disk struct {
	path  string
	stop  func()
	first map[string][]byte // the files' contents at the start
	lay   []diskEvent       // the files beside it at the start

	mu       sync.Mutex
	happened *sync.Cond
	events   []diskEvent
	side     string
	others   string // names of sessions' files

	// fault, if set, returns another code than SQLITE_OK for a call that is to fail. A sync that fails loses the writes
	// that were not synced before. The kernel does not keep them for the next sync, but reports the failure once to
	// every process that has the file open (https://lwn.net/Articles/752063/).
	fault atomic.Pointer[func(what diskDid, file string) int32]
	open  map[uintptr]*handle
	// lies reports which syncs report success and do nothing.
	lies func(file string) bool
}

type diskDid int

const (
	wrote diskDid = iota
	truncated
	removed
	synced    // a sync of the changes before the event since
	notSynced // such a sync that failed
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
	say      func(known map[string]promise) // of told events
}

// record makes a disk that remembers every change to the journal at path from now on, until the test ends. The present
// contents count as durable.
func record(t *testing.T, path string) *disk {
	t.Helper()
	d := &disk{path: path, open: make(map[uintptr]*handle)}
	d.happened = sync.NewCond(&d.mu)
	d.first = map[string][]byte{"": nil} // the file is made, and durable, before SQLite opens it
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

// look notes changes to the files beside the journal.
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

// tell notes the result that a caller got.
func (d *disk) tell(say func(known map[string]promise)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.append(diskEvent{did: told, say: say})
}

// more waits until that many further events have happened, or the context ends.
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
	owed int32 // the error that its next sync reports
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

// change changes a file, and notes it afterwards, so that a sync that begins then covers it.
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

func (d *disk) rewritten(name string) {
	content, err := os.ReadFile(name)
	if err != nil {
		panic(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	file, _ := beside(d.path, name)
	d.append(diskEvent{did: wrote, file: file, data: content})
	d.append(diskEvent{did: synced, file: file, since: len(d.events)})
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
		return rc // another sync failed meanwhile, maybe for writes that this one should cover
	}
	d.append(e)
	return rc
}

// platter is what a disk holds at one moment.
type platter struct {
	files    map[string]*diskFile
	side     string
	before   string // the sidecar before, since the rename may not be durable
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

// does applies the n-th event.
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
			// SQLite syncs the directory with a new file (unixSync).
			for _, f := range p.files {
				f.named, f.ghost = true, nil
			}
		}
	}
}

// on returns the content after the event.
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

// sectorSize is the unit that a disk writes completely or not at all.
const sectorSize = 512

// loss decides about the unsynced changes in a loss of power.
type loss struct {
	random *rand.Rand
	odds   float64 // of a written sector or a truncated file; 0 means none, 1 means all
	order  bool    // changes are written in their order
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
		if rest < len(f.pending) { // one change is half done
			content = l.part(f.pending[rest], content)
		}
		return content, true
	}
	for _, e := range f.pending {
		content = l.part(e, content)
	}
	return content, true
}

// part applies some of e's sectors.
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

// leave writes the files as found after a loss of power, to a directory of their own, and returns the journal's path.
func (p *platter) leave(t testing.TB, dir string, l loss) string {
	t.Helper()
	path := filepath.Join(dir, "journal.db")
	put := func(suffix string, content []byte) { require.NoError(t, os.WriteFile(path+suffix, content, 0o600)) }
	for suffix, f := range p.files {
		if content, there := l.leaves(f); there {
			put(suffix, content)
		}
	}
	if l.odds < 1 { // the -shm file holds garbage
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

// hearings numbers the operations that hears begins.
var hearings atomic.Int64

// hears commits something. A sync that failed in the checkpointer is reported once to the writer too, at its next
// commit. The checkpointer has no more to sync by then.
func hears(ctx context.Context, j *sqlite.Journal, s machine.Session) {
	sqlite.Checkpointed(j)
	_, _ = j.Apply(ctx, generate(fmt.Sprint("hears-", s.ID(), "-", hearings.Add(1)), s))
}

// identityOf returns the journal's identity from a sidecar's text.
func identityOf(side string) string { return strings.Fields(side)[2] }

// careless is a disk in a directory that syncs nothing. No test cuts the machine's own power, and a killed process
// loses none of its writes. TestMain uses one for all directories.
type careless struct{ dir string }

func (c careless) watches(name string) bool { return strings.HasPrefix(name, c.dir) }

func (careless) opened(uintptr, string)                                   {}
func (careless) closed(uintptr)                                           {}
func (careless) write(_ string, _ int64, _ []byte, do func() int32) int32 { return do() }
func (careless) truncate(_ string, _ int64, do func() int32) int32        { return do() }
func (careless) remove(_ string, do func() int32) int32                   { return do() }
func (careless) sync(uintptr, string) int32                               { return sqlite3.SQLITE_OK }
func (careless) rewritten(string)                                         {}
