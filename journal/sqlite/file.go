package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// file is one open file, shared by all Journals of this process that are on it.
type file struct {
	path       string // real
	users      int    // guarded by files.mu
	writer     *writer
	checkpoint *checkpointer
	readers    *readers
	local      localDatabase
	// leaves is a connection that can't write. Closed last, it leaves the WAL where it
	// is. nil, unless another program moves the WAL.
	leaves  *conn
	loading sync.WaitGroup // preload
	unload  context.CancelFunc
	archive *archive // nil: there is none
}

// files are the open files by real path: two writers in one process would get in
// each other's way, and lose each other's POSIX locks.
var files = struct {
	mu     sync.Mutex
	byPath map[string]*file
}{byPath: make(map[string]*file)}

func acquire(path string, opts Options) (*file, error) {
	files.mu.Lock()
	defer files.mu.Unlock()
	real, err := create(path)
	if err != nil {
		return nil, err
	}
	if f, ok := files.byPath[real]; ok {
		f.users++
		return f, nil
	}
	if err := onlyName(real); err != nil {
		return nil, err
	}
	if err := oneName(real); err != nil {
		return nil, err
	}
	f, err := openFile(real, opts)
	if err != nil {
		return nil, err
	}
	f.users = 1
	files.byPath[real] = f
	return f, nil
}

// onlyName is oneName for a file that is open in this process, wherever its links can't
// be counted.
func onlyName(real string) error {
	info, err := os.Stat(real)
	if err != nil {
		return fmt.Errorf("journal %s: %w", real, err)
	}
	for path := range files.byPath {
		if open, err := os.Stat(path); err == nil && os.SameFile(info, open) {
			return fmt.Errorf("%w: %s is a second name of %s, which is open; give that path", ErrSecondName, real, path)
		}
	}
	return nil
}

func (f *file) release() error {
	files.mu.Lock()
	defer files.mu.Unlock()
	if f.users--; f.users > 0 {
		return f.writer.flush()
	}
	delete(files.byPath, f.path)
	return f.close()
}

// create returns the real path of the file, and makes an empty one with mode 0600
// where there is none, before SQLite would make it with the umask's, unless it was
// removed from its WAL. It never opens a file that is there.
func create(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("journal %s: %w", path, err)
	}
	dir := filepath.Dir(path)
	if err := checkFilesystem(dir); err != nil {
		return "", fmt.Errorf("journal %s: %w", path, err)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := refuseStale(path); err != nil {
			return "", err
		}
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
		if err == nil {
			err = errors.Join(f.Close(), syncDir(dir))
		}
		if target, link := os.Readlink(path); errors.Is(err, fs.ErrExist) && link == nil {
			if !filepath.IsAbs(target) {
				target = filepath.Join(dir, target)
			}
			return create(target) // it leads to where no file is yet
		}
		if err != nil && !errors.Is(err, fs.ErrExist) { // another process may have come first
			return "", fmt.Errorf("journal %s: can't be made: %w; check that its directory exists and can be written", path, err)
		}
	case err != nil:
		return "", fmt.Errorf("journal %s: %w", path, err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%w: %s is %s; give the path of a file", ErrNotJournal, path, describe(info.Mode()))
	}
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		err = checkFilesystem(filepath.Dir(real))
	}
	if err != nil {
		return "", fmt.Errorf("journal %s: %w", path, err)
	}
	return real, nil
}

func describe(mode fs.FileMode) string {
	if mode.IsDir() {
		return "a directory"
	}
	return "not a regular file"
}

// pageBytes is the size of the pages of a file that we make.
const pageBytes = 8192

const defaultBusyTimeout = 10 * time.Second

// patience is for what happens before the writer begins: other processes may be
// opening the file, or recovering it.
var patience = pragma{"busy_timeout", "5000", "5000"}

// The order matters: some settings are refused, without a word, after others.
var (
	writerPragmas = []pragma{
		{"journal_mode", "WAL", "wal"},
		{"synchronous", "FULL", "2"},     // NORMAL does not survive the loss of power
		{"wal_autocheckpoint", "0", "0"}, // the checkpointer does it, beside the writer
		{"secure_delete", "ON", "1"},     // what is reaped is gone; FAST would leave it in pages that are free
		{"journal_size_limit", fmt.Sprint(maxWAL), fmt.Sprint(maxWAL)},
		{"trusted_schema", "OFF", "0"}, // the file may come from anywhere
	}
	checkpointPragmas = []pragma{
		patience,
		{"synchronous", "FULL", "2"}, // what a checkpoint removes from the WAL must be in the file
		{"wal_autocheckpoint", "0", "0"},
	}
	readerPragmas = []pragma{
		patience,
		{"wal_autocheckpoint", "0", "0"},
		{"trusted_schema", "OFF", "0"},
		{"query_only", "ON", "1"},
	}
)

func openFile(path string, opts Options) (f *file, err error) {
	timeout := opts.BusyTimeout
	if timeout <= 0 {
		timeout = defaultBusyTimeout
	}
	if err := refuseStale(path); err != nil {
		return nil, err
	}
	main, err := dial(path, []pragma{patience})
	if err != nil {
		return nil, explain(path, "open", err)
	}
	defer func() {
		if err != nil {
			_ = main.close()
		}
	}()
	// Before anything is changed: it may be somebody else's file.
	if _, err := main.recognise(path, opts); err != nil {
		return nil, err
	}
	// A row of the log then takes half the frames of the WAL. Any other file than one
	// that is being made keeps the size that it has.
	if err := main.exec(fmt.Sprint("PRAGMA page_size=", pageBytes)); err != nil {
		return nil, explain(path, "open", err)
	}
	if err := inTurn(timeout, func() error { return main.set(writerPragmas) }); err != nil {
		return nil, explain(path, "open", err)
	}
	migrated, err := main.migrate(path, opts)
	if err != nil {
		return nil, err
	}
	if err := restrict(path); err != nil {
		return nil, err
	}
	files, err := opened(path)
	if err != nil {
		return nil, explain(path, "open", err)
	}
	if err := sweepSessionFiles(path, main); err != nil {
		return nil, err
	}
	if err := sweepSidecars(path); err != nil {
		return nil, explain(path, "open", err)
	}
	// From here on the writer itself waits for its turn: SQLite's own waiting
	// starves whoever has waited longest.
	if err := main.set([]pragma{{"busy_timeout", "0", "0"}}); err != nil {
		return nil, explain(path, "open", err)
	}
	if migrated && !opts.ExternalCheckpointer {
		// The first epoch into the file, unless another process is busy already.
		_ = main.exec("PRAGMA wal_checkpoint(TRUNCATE)")
	}
	background, err := dial(path, checkpointPragmas)
	if err != nil {
		return nil, explain(path, "open", err)
	}
	checkpoint := newCheckpointer(path, background, files, opts.ExternalCheckpointer)
	readers := newReaders(path)
	w, err := newWriter(path, main, files, checkpoint, timeout, opts)
	if err != nil {
		return nil, errors.Join(explain(path, "open", err), checkpoint.close())
	}
	// The first batch compares the journal with its sidecar.
	if err := w.flush(); err != nil {
		_ = w.stop()
		return nil, errors.Join(err, checkpoint.close(), readers.close())
	}
	f = &file{path: path, writer: w, checkpoint: checkpoint, readers: readers}
	if opts.ExternalCheckpointer {
		if f.leaves, err = dialMode(path, "ro", readerPragmas); err == nil {
			_, err = f.leaves.value("SELECT count(*) FROM onceward_sessions") // only then it is connected to the WAL
		}
		if err != nil {
			_ = w.stop()
			if f.leaves != nil {
				_ = f.leaves.close()
			}
			return nil, errors.Join(explain(path, "open for reading", err), checkpoint.close(), readers.close())
		}
	}
	if opts.Archive != nil {
		f.archive = newArchive(opts.Archive, opts.ArchiveBodies)
	}
	loading, cancel := context.WithCancel(context.Background())
	f.unload = cancel
	f.loading.Go(func() { f.preload(loading) })
	return f, nil
}

// restrict takes from others what they may have been allowed, in a file that we
// now know to be ours. By path: opening it would cost SQLite its locks.
func restrict(path string) error {
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm()&0o077 == 0 {
			continue
		}
		err = os.Chmod(name, info.Mode().Perm()&^0o077)
		if errors.Is(err, fs.ErrPermission) && info.Mode().Perm()&0o007 == 0 {
			continue // whoever owns it lets the group use it
		}
		if err != nil {
			return fmt.Errorf("journal %s: others may read it, and that can't be changed: %w; run chmod 600 on it", path, err)
		}
	}
	return nil
}

func (f *file) close() error {
	f.unload()
	f.loading.Wait()
	errs := []error{f.local.close(), f.writer.stop(), f.checkpoint.close(), f.readers.close()}
	// The last connection to the file moves what is left of the WAL, and removes it.
	errs = append(errs, f.writer.conn.close())
	if f.leaves != nil {
		errs = append(errs, f.leaves.close())
	}
	return explain(f.path, "close", errors.Join(errs...))
}
