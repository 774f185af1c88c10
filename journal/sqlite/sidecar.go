package sqlite

import (
	"crypto/rand"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/osfile"
)

// sidecar is the file beside the journal with the journal's identity and the number of a commit. That commit
// was durable before the sidecar was written. The journal is therefore never behind its sidecar, whenever its
// process dies, unless an older journal replaced it.
//
// The number is in the log, in which every commit has a row.
type sidecar struct {
	identity string
	number   int64
	note
}

func sidecarFile(path string) string { return path + "-sidecar" }

// newIdentity returns at least 128 random bits, as letters and digits.
func newIdentity() string { return rand.Text() }

var errSidecar = errors.New("it can't be understood")

// String returns its one line, which begins with the version of its format. The first version has neither a
// note nor a sum.
func (s sidecar) String() string {
	if s.wal == "" {
		return fmt.Sprintf("onceward-sidecar 1 %s %d\n", s.identity, s.number)
	}
	line := fmt.Sprintf("onceward-sidecar 2 %s %d %s %d %d", s.identity, s.number, s.wal, s.epoch, s.filed)
	return fmt.Sprintf("%s %08x\n", line, format.Sum([]byte(line)))
}

func parseSidecar(text string) (s sidecar, err error) {
	if strings.HasPrefix(text, "onceward-sidecar 1 ") {
		_, err = fmt.Sscanf(text, "onceward-sidecar 1 %s %d\n", &s.identity, &s.number)
	} else {
		_, err = fmt.Sscanf(text, "onceward-sidecar 2 %s %d %s %d %d ", &s.identity, &s.number, &s.wal, &s.epoch, &s.filed)
	}
	if err != nil || s.number < 0 || s.filed < 0 || s.filed > s.epoch || s.String() != text {
		return sidecar{}, errSidecar
	}
	return s, nil
}

// readSidecar returns errSidecar or an error of package os.
func readSidecar(path string) (sidecar, error) {
	text, err := os.ReadFile(sidecarFile(path))
	if err != nil {
		return sidecar{}, err
	}
	return parseSidecar(string(text))
}

// write replaces the sidecar by s completely or not at all. It survives a loss of power if sync is set.
// Otherwise the earlier one may survive.
func (s sidecar) write(path string, sync bool) (err error) {
	dir, base := filepath.Split(sidecarFile(path))
	f, err := os.CreateTemp(dir, base+"-*") // with mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.WriteString(s.String())
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := osfile.OwnLike(path, f.Name()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), sidecarFile(path)); err != nil || !sync {
		return err
	}
	return osfile.SyncDir(dir)
}

// place is write for a required sidecar.
func (s sidecar) place(path string) error {
	var err error
	for range 10 {
		if err = s.write(path, true); !errors.Is(err, fs.ErrNotExist) {
			break // else another process's Open swept the new one away
		}
	}
	if err != nil {
		return fmt.Errorf("its sidecar can't be written: %w", err)
	}
	return nil
}

// advance has the sidecar of a healthy journal name a later commit.
func (s sidecar) advance(path string) error {
	switch now, err := readSidecar(path); {
	case errors.Is(err, fs.ErrNotExist):
		return s.write(path, true)
	case err != nil:
		return err
	case now.identity != s.identity || now.number > s.number:
		return nil // another process adopted the journal, or came first
	default:
		if s.note = s.note.after(now.note); s == now {
			return nil
		}
	}
	return s.write(path, false)
}

// sweepSidecars removes the files of processes that died while they wrote a sidecar.
func sweepSidecars(path string) {
	names, _ := filepath.Glob(osfile.GlobEscape(sidecarFile(path)+"-") + "*")
	for _, name := range names {
		if strings.Trim(strings.TrimPrefix(name, sidecarFile(path)+"-"), "0123456789") == "" {
			_ = os.Remove(name) // otherwise it belongs to another process
		}
	}
}

// verify compares the journal with its sidecar, and makes one for a new journal. It runs in a transaction, so
// that no other process commits, and nothing that the sidecar names is missing meanwhile.
func (b *batch) verify() error {
	why, err := b.isBackup()
	if err != nil {
		return err
	}
	side, err := readSidecar(b.path)
	if why == "" {
		if why, err = side.contradicts(err, b.identity, b.seq, b.number); err != nil {
			return err
		}
	}
	if why == "" && side == (sidecar{}) {
		// Records of the application's transactions have no row in the log yet.
		err := b.read(b.sql.readOutbox, func([]driver.Value) error {
			why = "has history, and no sidecar"
			return conn.ErrEnough
		})
		if err != nil && !errors.Is(err, conn.ErrEnough) {
			return err
		}
	}
	if why == "" && side == (sidecar{}) {
		new := sidecar{identity: b.identity, number: b.number}
		if new.wal, err = walBeside(b.path); err == nil {
			new.epoch = b.epoch
			err = new.place(b.path)
		}
		if err != nil {
			return err
		}
	}
	b.verified, b.restored = true, nil
	if why != "" {
		b.restored = fmt.Errorf("%w: %s %s; nothing is sent until it is adopted: "+
			"see to it that no other copy of it is in use, and call Adopt", journal.ErrRestored, b.path, why)
	}
	b.checkpoint.trusted.Store(b.restored == nil)
	return nil
}

// contradicts says how the sidecar, or an error in reading it, shows that a journal is not whole. The
// arguments are the journal's identity, the latest row of its log, and its latest commit.
func (s sidecar) contradicts(err error, identity string, seq, number int64) (string, error) {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if seq > 1 {
			return "has history, and no sidecar", nil // a new one has its sidecar before its first commit
		}
		return "", nil
	case errors.Is(err, errSidecar):
		return "has a sidecar that can't be understood", nil
	case err != nil:
		return "", fmt.Errorf("its sidecar can't be read: %w", err)
	case s.identity != identity:
		return "has the sidecar of another journal", nil
	case s.number > number:
		return fmt.Sprintf("is older than its sidecar: it ends with commit %d, not %d", number, s.number), nil
	}
	return "", nil
}

// refuses returns journal.ErrRestored for events that would send, decide or forget by an incomplete record.
func (b *batch) refuses(kind journal.EventKind) error {
	if store.NeedsTrust(kind) {
		return b.restored
	}
	return nil
}
