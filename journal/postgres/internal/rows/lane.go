package rows

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/postgres/internal/pgerr"
)

// lane is a row whose number each commit of one transaction after another raises.
type lane struct {
	id     string
	number int64 // of the latest commit
}

// takeLane returns a lane that no transaction uses. It resolves commits in doubt first.
func (d *Driver) takeLane(ctx context.Context) (*lane, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.doubts) > 0 {
		l := d.doubts[0]
		switch _, err := d.resolve(ctx, l); {
		case errors.Is(err, rowstore.ErrFenced):
			return nil, err
		case err != nil:
			return nil, fmt.Errorf("%w: %w", rowstore.ErrUndecided, err)
		}
		d.doubts, d.lanes = d.doubts[1:], append(d.lanes, l)
	}
	if n := len(d.lanes); n > 0 {
		l := d.lanes[n-1]
		d.lanes = d.lanes[:n-1]
		return l, nil
	}
	l := &lane{id: newID()}
	_, err := d.pool.Exec(ctx, d.in("INSERT INTO {{s}}.lanes (process, lane) VALUES ($1, 0)"), l.id)
	return l, err
}

func (d *Driver) giveBack(l *lane) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lanes = append(d.lanes, l)
}

// resolve finds out whether the latest commit of a lane landed. It waits for the transaction's end.
func (d *Driver) resolve(ctx context.Context, l *lane) (landed bool, err error) {
	var number int64
	if err := d.pool.QueryRow(ctx, d.in("SELECT batch FROM {{s}}.lanes WHERE process = $1 AND lane = 0 FOR UPDATE"), l.id).Scan(&number); err != nil {
		return false, err
	}
	landed = number == l.number+1
	if !landed && number != l.number {
		return false, rowstore.ErrFenced
	}
	l.number = number
	return landed, nil
}

// resolvePatience is how long a commit whose answer was lost is looked for before it is in doubt.
const resolvePatience = 2 * time.Second

// fate returns what became of a commit that failed with err. laneFailed says that the statement of the lane did.
func (t *tx) fate(err error, laneFailed bool) error {
	switch {
	case laneFailed && pgerr.Code(err) == "22012":
		return rowstore.ErrFenced
	case pgerr.IsStatements(err):
		return meaning(err)
	}
	// The connection broke, or the answer says nothing of the commit.
	t.lose()
	ctx, cancel := context.WithTimeout(context.Background(), resolvePatience)
	defer cancel()
	landed, failed := t.d.resolve(ctx, t.lane)
	if failed != nil {
		t.d.mu.Lock()
		t.d.doubts = append(t.d.doubts, t.lane)
		t.d.mu.Unlock()
		t.lane = nil
		return errors.Join(rowstore.ErrUndecided, err)
	}
	if landed {
		return nil
	}
	return fmt.Errorf("%w: %w", errNotLanded, err)
}
