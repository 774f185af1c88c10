package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// errNoWorker is explained at Options.Existing.
var errNoWorker = errors.New("postgres: a journal that was opened with Options.Existing has no sessions: open it without Options.Existing to send")

// enterToWrite is enter for calls that change the journal. It returns ErrReadOnly if Options.ReadOnly is set.
func (j *Journal) enterToWrite(ctx context.Context) (leave func(), err error) {
	leave, err = j.enter(ctx)
	if err == nil && j.opts.ReadOnly {
		leave()
		return nil, ErrReadOnly
	}
	return leave, err
}

// readTime is all that Options.ReadOnly asks of the server's clock: by how much it is ahead of this process's.
func (j *Journal) readTime(ctx context.Context, conn *pgx.Conn) error {
	var said time.Time
	sent := time.Now()
	if err := conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&said); err != nil {
		return err
	}
	j.time.HeardAt(sent, said)
	return nil
}
