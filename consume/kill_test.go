//go:build unix

package consume_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/consume"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

func TestMain(m *testing.M) { oncetest.Main(m, (*reader).read) }

// reader is a process that reads a log to the log's end, in batches of four, unless the process kills itself before.
type reader struct {
	Folder    string
	Together  int
	Killed    string // written: in the transaction; done: before the offset is committed; "": never
	KilledFor string // a message's ID
}

func (r *reader) dies(when, id string) {
	if r.Killed == when && r.KilledFor == id {
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
		select {}
	}
}

func (r *reader) read() error {
	ctx := context.Background()
	j, err := sqlite.Open(filepath.Join(r.Folder, "books.db"), sqlite.Options{})
	if err != nil {
		return err
	}
	defer j.Close()
	c, err := consume.New(ctx, consume.Options{Journal: j, Name: "log", Keep: time.Hour, Together: r.Together})
	if err != nil {
		return err
	}
	offset := filepath.Join(r.Folder, "committed")
	var log partition
	text, err := os.ReadFile(offset)
	if err == nil {
		log.committed, err = strconv.Atoi(string(text))
	}
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	for log.committed < inPartition {
		messages := log.poll()
		done, err := c.InOrder(ctx, messages, func(ctx context.Context, tx journal.Tx, i int) error {
			err := book(messages[i].ID)(ctx, tx)
			r.dies("written", messages[i].ID)
			return err
		})
		if err != nil {
			return err
		}
		r.dies("done", messages[done-1].ID)
		log.committed += done
		if err := os.WriteFile(offset, []byte(strconv.Itoa(log.committed)), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// A process that is killed while it reads a log loses no message and does none twice.
func TestReaderOfALogIsKilled(t *testing.T) {
	t.Parallel()
	for _, r := range []reader{
		{Together: 1, Killed: "written", KilledFor: "m-5"}, {Together: 1, Killed: "done", KilledFor: "m-7"},
		{Together: 3, Killed: "written", KilledFor: "m-6"}, {Together: 3, Killed: "done", KilledFor: "m-3"},
	} {
		t.Run(fmt.Sprintf("together %d, %s", r.Together, r.Killed), func(t *testing.T) {
			t.Parallel()
			r.Folder = t.TempDir()
			b := openIn(t, r.Folder)
			child, err := oncetest.StartChild(t.Context(), r)
			require.NoError(t, err)
			killed, err := child.End()
			require.NoError(t, err)
			require.True(t, killed)
			r.Killed = ""
			require.NoError(t, r.read())
			var all []string
			for i := range inPartition {
				all = append(all, fmt.Sprint("m-", i))
			}
			assert.Equal(t, all, b.ledger())
		})
	}
}
