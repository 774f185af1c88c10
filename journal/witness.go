package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Witness keeps a number outside the database: in a file on another machine, an object, a ConfigMap. If an earlier state
// is put back while no process is alive, the database is behind the witness. Each deployment has one Witness, shared by
// the deployment's processes. The methods are safe for concurrent use.
type Witness interface {
	// Load returns the last stored number, or 0.
	Load(ctx context.Context) (int64, error)
	// Store keeps a number. The number need not be the greatest: the journal is never behind a stored number.
	Store(ctx context.Context, number int64) error
}

// WitnessFile is a Witness in a file. Keep the file apart from the database, and never restore it with the database.
type WitnessFile string

// Load reads the file.
func (f WitnessFile) Load(context.Context) (int64, error) {
	text, err := os.ReadFile(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

// Store replaces the file as a whole, so the file is never torn.
func (f WitnessFile) Store(_ context.Context, number int64) error {
	next, err := os.CreateTemp(filepath.Dir(string(f)), filepath.Base(string(f))+"-*")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(next, number)
	if err = errors.Join(err, next.Sync(), next.Close()); err == nil {
		err = os.Rename(next.Name(), string(f))
	}
	if err != nil {
		_ = os.Remove(next.Name())
	}
	return err
}
