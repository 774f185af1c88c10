//go:build unix

package sqlite_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/sqlite"
)

// hanging is a disk on which a write does not return until it is released, or until any caller that waits for it has
// failed.
type hanging struct {
	careless
	hangs, released chan struct{}
	once            sync.Once
	gaveUp          atomic.Bool // for all writes, once one gave up
}

func (d *hanging) write(_ string, _ int64, _ []byte, do func() int32) int32 {
	d.once.Do(func() { close(d.hangs) })
	if d.gaveUp.Load() {
		return do()
	}
	select {
	case <-d.released:
	case <-time.After(time.Minute):
		d.gaveUp.Store(true)
	}
	return do()
}

// An Open on a hanging disk does not block other journals.
func TestOpenOnADiskThatHangs(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	before := open(t, filepath.Join(elsewhere, "before.db"))
	d := &hanging{careless: careless{dir}, hangs: make(chan struct{}), released: make(chan struct{})}
	t.Cleanup(watch(d))
	type opened struct {
		*sqlite.Journal
		error
	}
	slow := make(chan opened, 2)
	for range cap(slow) {
		go func() {
			j, err := sqlite.Open(filepath.Join(dir, "journal.db"), sqlite.Options{})
			slow <- opened{j, err}
		}()
	}
	<-d.hangs
	goOn(t, open(t, filepath.Join(elsewhere, "after.db")), "invoice-1")
	require.NoError(t, before.Close())
	close(d.released)
	var journals []*sqlite.Journal
	for range cap(slow) {
		o := <-slow
		require.NoError(t, o.error)
		t.Cleanup(func() { _ = o.Close() })
		journals = append(journals, o.Journal)
	}
	assert.False(t, d.gaveUp.Load(), "they had waited for it")
	goOn(t, journals[0], "invoice-2")
	assert.True(t, has(t, journals[1], "invoice-2"), "they were opened at once, and have one file")
}

func TestAFileIsOpenedAndClosedByManyAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	const many = 32
	sideBySide(many, func(i int) {
		j, err := sqlite.Open(path, sqlite.Options{})
		if !assert.NoError(t, err) {
			return
		}
		s, err := j.Join(t.Context())
		if assert.NoError(t, err) {
			_, err = j.Apply(t.Context(), begin(fmt.Sprint("invoice-", i), s))
			assert.NoError(t, err)
		}
		assert.NoError(t, j.Close())
	})
	j := open(t, path)
	for i := range many {
		assert.True(t, has(t, j, fmt.Sprint("invoice-", i)))
	}
	require.NoError(t, sound(t.Context(), j))
}
