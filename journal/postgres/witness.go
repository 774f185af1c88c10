package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/journal/postgres/internal/connection"
)

// Witness keeps a number outside of the database: in a file on another machine, an object, a ConfigMap. If a copy of
// the database's storage is put back while no process is alive, the database is behind its witness. Each deployment
// has its own, which its processes may share. Its methods are safe for concurrent use.
type Witness interface {
	// Load returns the number that was stored last, or 0.
	Load(ctx context.Context) (int64, error)
	// Store keeps a number. It need not be the greatest: the journal is never behind one that was stored.
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

// Store replaces the file as a whole, so that it is never torn.
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

// witnessStep is added to the number by an Adopt or a Confirm. It is more than beats add in any journal's life.
const witnessStep = int64(1) << 32

// hearWitness makes a journal that is behind its witness count as restored.
func (j *Journal) hearWitness(ctx context.Context, conn *pgx.Conn) error {
	if j.opts.Witness == nil {
		return nil
	}
	told, err := j.opts.Witness.Load(ctx)
	if err != nil {
		return fmt.Errorf("postgres: Options.Witness can't be asked whether the database has gone back: %w", err)
	}
	var number, epoch int64
	if err := conn.QueryRow(ctx, "SELECT witnessed, epoch FROM "+j.schema+".journal").Scan(&number, &epoch); err != nil {
		return err
	}
	if number < told {
		return j.looksRestored(ctx, conn, epoch, fmt.Sprintf("the database has gone back: it is at %d, and the witness has seen %d", number, told))
	}
	return j.testify(ctx, conn)
}

// testify stores a number in the witness that the database has for certain. Before that it loads the witness's
// number. If the database's number is below that, the database has gone back.
func (j *Journal) testify(ctx context.Context, conn *pgx.Conn) error {
	now := time.Now()
	if j.opts.Witness == nil || j.opts.Existing || j.restored.Load() != nil || now.Before(j.observed.testify) {
		return nil
	}
	j.observed.testify = now.Add(j.pace.testify)
	told, err := j.opts.Witness.Load(ctx) // before the number is raised, as others raise it too
	if err != nil {
		j.log.Warn("onceward: the journal's witness does not say whether the database has gone back; it is asked again later", "error", err)
		return nil
	}
	var number, epoch int64
	err = connection.Alone(ctx, j.background, conn, func(b *pgx.Batch) {
		b.Queue("UPDATE " + j.schema + ".journal SET witnessed = witnessed + 1 RETURNING witnessed, epoch").
			QueryRow(func(r pgx.Row) error { return r.Scan(&number, &epoch) })
	})
	if err != nil {
		return err
	}
	if number <= told {
		return j.isOlder(ctx, conn, epoch, fmt.Sprintf("it is at %d, and the witness has seen %d", number-1, told))
	}
	if err := j.opts.Witness.Store(ctx, number); err != nil {
		j.log.Warn("onceward: the journal's position could not be written to the witness", "error", err)
	}
	return nil
}
