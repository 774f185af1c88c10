// Package vfs makes a commit cheaper than SQLite's own access to files does. It writes all frames of a commit by one system
// call instead of two a frame, and syncs by fdatasync instead of fsync. A checkpoint's pages are on their way to the disk
// before the sync that waits for them.
//
// It knows SQLite's methods of a file, and calls those of the default VFS. It must not know what is in a file.
// Outside Linux it does nothing.
package vfs

import (
	"slices"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/onceward/onceward/journal/sqlite/internal/cmem"
)

// name is the VFS's. A connection chooses it. It never is the default one.
const name = "onceward"

// maxHeld is how many bytes of the WAL wait in memory for the end of the commit, at most. SQLite's unixWrite takes no more
// at a time.
const maxHeld = 1<<17 - 1

// Parameter returns what the URI of a connection with synchronous=FULL needs in order to use the VFS, beginning with &.
// It is empty if the connection can't use it, as once the application has replaced the default VFS.
func Parameter() string {
	register()
	tls := libc.NewTLS()
	defer tls.Close()
	if beneath == 0 || sqlite3.Xsqlite3_vfs_find(tls, 0) != beneath {
		return ""
	}
	return "&vfs=" + name
}

// beneath is the VFS that was the default one when ours was registered, or 0 if that failed. The memory of an open file has
// its size.
var beneath uintptr

// refusal is the error of a connection that turns syncs off, in C memory.
var refusal uintptr

var register = sync.OnceFunc(func() {
	tls := libc.NewTLS()
	defer tls.Close()
	found := sqlite3.Xsqlite3_vfs_find(tls, 0)
	own := *cmem.At[sqlite3.Tsqlite3_vfs](found)
	text, err := libc.CString(name)
	if err != nil {
		return
	}
	if refusal, err = libc.CString("the connection of a journal keeps synchronous=FULL"); err != nil {
		return
	}
	own.FpNext, own.FzName, own.FxOpen = 0, text, cmem.PointerTo[openMethod](open)
	if address, _ := cmem.CopyOf(tls, &own); address != 0 && sqlite3.Xsqlite3_vfs_register(tls, address, 0) == sqlite3.SQLITE_OK {
		beneath = found
	}
})

// file is an open journal or its WAL. One goroutine at a time uses it, as its connection.
type file struct {
	methods *sqlite3.Tsqlite3_io_methods // of the VFS beneath
	data    bool                         // fdatasync is enough, once it was synced
	synced  bool
	log     *file // of a journal: its WAL, if it is open
	main    *file // of a WAL: its journal

	// held was written to a WAL, and is not in the file yet. It begins at offset there. No other connection reads it, since
	// SQLite publishes a commit after its sync. Nor does one write there before SQLite gives up its lock on the WAL.
	held    []byte
	offset  int64
	address uintptr // of the WAL
}

// files are the open ones, by their address in C memory.
var files sync.Map // of uintptr to *file

type (
	openMethod     = func(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32
	closeMethod    = func(tls *libc.TLS, file uintptr) int32
	readMethod     = func(tls *libc.TLS, file, data uintptr, size int32, offset int64) int32
	writeMethod    = func(tls *libc.TLS, file, data uintptr, size int32, offset int64) int32
	truncateMethod = func(tls *libc.TLS, file uintptr, size int64) int32
	syncMethod     = func(tls *libc.TLS, file uintptr, flags int32) int32
	sizeMethod     = func(tls *libc.TLS, file, size uintptr) int32
	controlMethod  = func(tls *libc.TLS, file uintptr, op int32, arg uintptr) int32
	lockMethod     = func(tls *libc.TLS, file uintptr, offset, n, flags int32) int32
)

// open has the VFS beneath open a file, and puts our methods in place of some of its own.
func open(tls *libc.TLS, _, name, address uintptr, flags int32, outFlags uintptr) int32 {
	vfs := cmem.At[sqlite3.Tsqlite3_vfs](beneath)
	rc := cmem.Call[openMethod](vfs.FxOpen)(tls, beneath, name, address, flags, outFlags)
	if rc != sqlite3.SQLITE_OK || flags&(sqlite3.SQLITE_OPEN_MAIN_DB|sqlite3.SQLITE_OPEN_WAL) == 0 {
		return rc
	}
	opened := cmem.At[sqlite3.Tsqlite3_file](address)
	f := &file{methods: cmem.At[sqlite3.Tsqlite3_io_methods](opened.FpMethods), address: address}
	f.data = libc.GoString(vfs.FzName) == "unix"
	wal := flags&sqlite3.SQLITE_OPEN_WAL != 0
	if wal {
		main, ok := files.Load(sqlite3.Xsqlite3_database_file_object(tls, name))
		if !ok {
			return rc
		}
		f.main = main.(*file)
		f.main.log = f
	}
	own := methodsOf(tls, opened.FpMethods, wal)
	if own == 0 {
		return rc
	}
	opened.FpMethods = own
	files.Store(address, f)
	return rc
}

// tables are our methods in C memory, by those of the VFS beneath, and by whether they are of a WAL.
var tables sync.Map // of [2]uintptr to uintptr

// methodsOf returns our methods, or 0 without memory for them.
func methodsOf(tls *libc.TLS, beneath uintptr, wal bool) uintptr {
	key := struct {
		beneath uintptr
		wal     bool
	}{beneath, wal}
	if own, ok := tables.Load(key); ok {
		return own.(uintptr)
	}
	methods := *cmem.At[sqlite3.Tsqlite3_io_methods](beneath)
	methods.FxClose = cmem.PointerTo[closeMethod](closeFile)
	methods.FxSync = cmem.PointerTo[syncMethod](syncFile)
	if wal {
		methods.FxRead = cmem.PointerTo[readMethod](read)
		methods.FxWrite = cmem.PointerTo[writeMethod](write)
		methods.FxTruncate = cmem.PointerTo[truncateMethod](truncate)
		methods.FxFileSize = cmem.PointerTo[sizeMethod](fileSize)
	} else {
		methods.FxShmLock = cmem.PointerTo[lockMethod](lock)
		methods.FxFileControl = cmem.PointerTo[controlMethod](control)
	}
	address, _ := cmem.CopyOf(tls, &methods)
	if address == 0 {
		return 0
	}
	own, _ := tables.LoadOrStore(key, address)
	return own.(uintptr)
}

func fileAt(address uintptr) *file {
	f, _ := files.Load(address)
	return f.(*file)
}

// put writes to the file what is held. After an error it still is, since the transaction may go on: a full disk undoes the one
// statement that read the WAL.
func (f *file) put(tls *libc.TLS) int32 {
	if len(f.held) == 0 {
		return sqlite3.SQLITE_OK
	}
	rc := cmem.Call[writeMethod](f.methods.FxWrite)(tls, f.address, uintptr(unsafe.Pointer(&f.held[0])), int32(len(f.held)), f.offset)
	if rc == sqlite3.SQLITE_OK {
		f.held = f.held[:0]
	}
	return rc
}

func closeFile(tls *libc.TLS, address uintptr) int32 {
	f := fileAt(address)
	if f.main != nil {
		f.main.log = nil
	}
	files.Delete(address)
	return cmem.Call[closeMethod](f.methods.FxClose)(tls, address)
}

func read(tls *libc.TLS, address, data uintptr, size int32, offset int64) int32 {
	f := fileAt(address)
	if rc := f.put(tls); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return cmem.Call[readMethod](f.methods.FxRead)(tls, address, data, size, offset)
}

func write(tls *libc.TLS, address, data uintptr, size int32, offset int64) int32 {
	f := fileAt(address)
	if offset != f.offset+int64(len(f.held)) || len(f.held)+int(size) > maxHeld {
		if rc := f.put(tls); rc != sqlite3.SQLITE_OK {
			return rc
		}
		f.offset = offset
	}
	f.held = append(f.held, unsafe.Slice(cmem.At[byte](data), size)...)
	return sqlite3.SQLITE_OK
}

func truncate(tls *libc.TLS, address uintptr, size int64) int32 {
	f := fileAt(address)
	if rc := f.put(tls); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return cmem.Call[truncateMethod](f.methods.FxTruncate)(tls, address, size)
}

func fileSize(tls *libc.TLS, address, size uintptr) int32 {
	f := fileAt(address)
	if rc := f.put(tls); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return cmem.Call[sizeMethod](f.methods.FxFileSize)(tls, address, size)
}

// syncFile makes durable what was written. The first sync of a file is the default VFS's: it also syncs the directory of a
// file that was made. Afterwards fdatasync is enough. It leaves out the time of the last change alone
// (https://man7.org/linux/man-pages/man2/fdatasync.2.html).
func syncFile(tls *libc.TLS, address uintptr, flags int32) int32 {
	f := fileAt(address)
	if rc := f.put(tls); rc != sqlite3.SQLITE_OK {
		f.held = f.held[:0] // the commit fails. Its rollback may read the WAL
		return rc
	}
	if !f.synced || !f.data {
		rc := cmem.Call[syncMethod](f.methods.FxSync)(tls, address, flags)
		f.synced = rc == sqlite3.SQLITE_OK
		return rc
	}
	fd := int(cmem.At[sqlite3.TunixFile](address).Fh)
	for {
		switch unix.Fdatasync(fd) {
		case nil:
			return sqlite3.SQLITE_OK
		case unix.EINTR:
		default:
			return sqlite3.SQLITE_IOERR_FSYNC
		}
	}
}

// lock forgets what is held when the lock on the WAL is given up, as after a rollback: the next process writes in its place. A
// commit that failed must not come to the WAL either, since a recovery would find it there.
func lock(tls *libc.TLS, address uintptr, offset, n, flags int32) int32 {
	f := fileAt(address)
	if f.log != nil && offset == sqlite3.WAL_WRITE_LOCK && flags == sqlite3.SQLITE_SHM_UNLOCK|sqlite3.SQLITE_SHM_EXCLUSIVE {
		f.log.held = f.log.held[:0]
	}
	return cmem.Call[lockMethod](f.methods.FxShmLock)(tls, address, offset, n, flags)
}

// control has the system begin to write back what a checkpoint wrote to the file. The writer syncs the file when the WAL starts
// over, and then waits for less.
//
// It refuses a connection without synchronous=FULL (https://sqlite.org/c3ref/c_fcntl_begin_atomic_write.html, FCNTL_PRAGMA).
// Such a commit is published without a sync, so its frames would not be in the WAL yet.
func control(tls *libc.TLS, address uintptr, op int32, argument uintptr) int32 {
	f := fileAt(address)
	switch op {
	case sqlite3.SQLITE_FCNTL_PRAGMA:
		// The name is an argument, and so is the value. It is 0 if the pragma is read.
		if pragma := cmem.At[[3]uintptr](argument); pragma[2] != 0 && strings.EqualFold(libc.GoString(pragma[1]), "synchronous") &&
			!slices.Contains([]string{"full", "2", "extra", "3"}, strings.ToLower(libc.GoString(pragma[2]))) {
			pragma[0] = sqlite3.Xsqlite3_mprintf(tls, refusal, 0)
			return sqlite3.SQLITE_ERROR
		}
	case sqlite3.SQLITE_FCNTL_CKPT_DONE:
		if f.data {
			_ = unix.SyncFileRange(int(cmem.At[sqlite3.TunixFile](address).Fh), 0, 0, unix.SYNC_FILE_RANGE_WRITE) // the sync will have its error
		}
	}
	return cmem.Call[controlMethod](f.methods.FxFileControl)(tls, address, op, argument)
}
