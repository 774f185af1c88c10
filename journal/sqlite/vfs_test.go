//go:build unix

package sqlite_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/onceward/onceward/journal/sqlite/internal/inplace"
)

// The driver's own VFS hooks (modernc.org/sqlite/vfs) can only read. So the tests replace the default VFS by one with
// its methods, except those that change a file. An open file still belongs to the default VFS. Only its table of
// methods is replaced.

// watcher sees what SQLite does to the files that it claims. Its methods return SQLite's result. They may call do for
// it, or return another one instead.
type watcher interface {
	watches(name string) bool
	opened(handle uintptr, name string)
	closed(handle uintptr)
	write(name string, offset int64, data []byte, do func() int32) int32
	truncate(name string, size int64, do func() int32) int32
	sync(handle uintptr, name string) int32 // no file is really synced
	remove(name string, do func() int32) int32
	rewritten(name string) // by this package, and synced
}

func init() {
	inplace.Rewritten = func(name string) {
		if w := watcherOf(name); w != nil {
			w.rewritten(name)
		}
	}
}

// watchers are the watchers of this process.
var watchers = struct {
	sync.Mutex
	once sync.Once
	all  []watcher
}{}

// watch shows w every file that is opened from now on, until stop is called. If two watchers claim a file, the later
// one gets it.
func watch(w watcher) (stop func()) {
	watchers.once.Do(replaceVFS)
	watchers.Lock()
	defer watchers.Unlock()
	watchers.all = append(watchers.all, w)
	return func() {
		watchers.Lock()
		defer watchers.Unlock()
		watchers.all = slices.DeleteFunc(watchers.all, func(other watcher) bool { return other == w })
	}
}

func watcherOf(name string) watcher {
	watchers.Lock()
	defer watchers.Unlock()
	for _, w := range slices.Backward(watchers.all) {
		if w.watches(name) {
			return w
		}
	}
	return nil
}

// watched are the open files by their address.
var watched sync.Map // of uintptr to *watchedFile

type watchedFile struct {
	watcher
	name    string
	methods *sqlite3.Tsqlite3_io_methods // the default VFS's
}

var (
	defaultVFS *sqlite3.Tsqlite3_vfs
	defaultAt  uintptr
	tables     sync.Map // of uintptr, a table of the default VFS's, to uintptr, ours
)

type (
	openMethod     = func(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32
	deleteMethod   = func(tls *libc.TLS, vfs, name uintptr, syncDir int32) int32
	closeMethod    = func(tls *libc.TLS, file uintptr) int32
	writeMethod    = func(tls *libc.TLS, file, data uintptr, size int32, offset int64) int32
	truncateMethod = func(tls *libc.TLS, file uintptr, size int64) int32
	syncMethod     = func(tls *libc.TLS, file uintptr, flags int32) int32
)

func replaceVFS() {
	tls := libc.NewTLS()
	defer tls.Close()
	defaultAt = sqlite3.Xsqlite3_vfs_find(tls, 0)
	defaultVFS = at[sqlite3.Tsqlite3_vfs](defaultAt)
	address, vfs := copyOf(tls, defaultVFS)
	name, err := libc.CString("watched")
	if err != nil {
		panic(err)
	}
	vfs.FpNext, vfs.FzName = 0, name
	vfs.FxOpen = pointerTo[openMethod](vfsOpen)
	vfs.FxDelete = pointerTo[deleteMethod](vfsDelete)
	if rc := sqlite3.Xsqlite3_vfs_register(tls, address, 1); rc != sqlite3.SQLITE_OK {
		panic(fmt.Sprint("sqlite3_vfs_register: ", rc))
	}
}

func vfsOpen(tls *libc.TLS, _, name, file uintptr, flags int32, outFlags uintptr) int32 {
	rc := callOf[openMethod](defaultVFS.FxOpen)(tls, defaultAt, name, file, flags, outFlags)
	if rc != sqlite3.SQLITE_OK || name == 0 {
		return rc
	}
	path := libc.GoString(name)
	w := watcherOf(path)
	if w == nil {
		return rc
	}
	table := at[sqlite3.Tsqlite3_file](file)
	watched.Store(file, &watchedFile{watcher: w, name: path, methods: at[sqlite3.Tsqlite3_io_methods](table.FpMethods)})
	ours, ok := tables.Load(table.FpMethods)
	if !ok {
		address, methods := copyOf(tls, at[sqlite3.Tsqlite3_io_methods](table.FpMethods))
		methods.FxClose = pointerTo[closeMethod](vfsClose)
		methods.FxWrite = pointerTo[writeMethod](vfsWrite)
		methods.FxTruncate = pointerTo[truncateMethod](vfsTruncate)
		methods.FxSync = pointerTo[syncMethod](vfsSync)
		ours, _ = tables.LoadOrStore(table.FpMethods, address)
	}
	table.FpMethods = ours.(uintptr)
	w.opened(file, path)
	return rc
}

func vfsDelete(tls *libc.TLS, _, name uintptr, syncDir int32) int32 {
	do := func() int32 { return callOf[deleteMethod](defaultVFS.FxDelete)(tls, defaultAt, name, syncDir) }
	path := libc.GoString(name)
	if w := watcherOf(path); w != nil {
		return w.remove(path, do)
	}
	return do()
}

func fileAt(file uintptr) *watchedFile {
	f, _ := watched.Load(file)
	return f.(*watchedFile)
}

func vfsClose(tls *libc.TLS, file uintptr) int32 {
	f := fileAt(file)
	watched.Delete(file)
	f.closed(file)
	return callOf[closeMethod](f.methods.FxClose)(tls, file)
}

func vfsWrite(tls *libc.TLS, file, data uintptr, size int32, offset int64) int32 {
	f := fileAt(file)
	return f.write(f.name, offset, unsafe.Slice(at[byte](data), size), func() int32 {
		return callOf[writeMethod](f.methods.FxWrite)(tls, file, data, size, offset)
	})
}

func vfsTruncate(tls *libc.TLS, file uintptr, size int64) int32 {
	f := fileAt(file)
	return f.truncate(f.name, size, func() int32 { return callOf[truncateMethod](f.methods.FxTruncate)(tls, file, size) })
}

func vfsSync(_ *libc.TLS, file uintptr, _ int32) int32 {
	f := fileAt(file)
	return f.sync(file, f.name)
}

// beside reports which of a journal's files a name is, by its suffix.
func beside(path, name string) (suffix string, ok bool) {
	suffix, ok = strings.CutPrefix(name, path)
	return suffix, ok && (suffix == "" || suffix == "-wal" || suffix == "-journal")
}
