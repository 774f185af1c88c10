package sqlite_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal/sqlite"
)

// sound returns an error if the journal is not sound.
func sound(ctx context.Context, j *sqlite.Journal) error {
	violations, err := j.Verify(ctx)
	if err == nil && len(violations) > 0 {
		err = fmt.Errorf("%d violations: %v", len(violations), violations[0])
	}
	return err
}

// tryOpen opens the journal and starts a session.
func tryOpen(t *testing.T, path string) (machine.Session, error) {
	t.Helper()
	j, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = j.Close() })
	return j.Join(t.Context())
}
