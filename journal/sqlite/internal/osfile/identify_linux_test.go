package osfile

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Once a process has read a file's times, a write notes a time finer than the kernel's tick, and the next fsync also
// writes the inode. Identify reads none. Two writes in one tick, with it in between, leave the tick's time.
func TestIdentifyLeavesTheTimesAlone(t *testing.T) {
	tick := func() time.Time {
		var now unix.Timespec
		require.NoError(t, unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now))
		return time.Unix(now.Unix())
	}
	folder := t.TempDir()
	for i := range 10_000 { // until no tick, and no finer time of another process, falls into one round
		path := filepath.Join(folder, strconv.Itoa(i))
		before := tick()
		require.NoError(t, os.WriteFile(path, []byte("a"), 0o600))
		_, err := Identify(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, []byte("b"), 0o600))
		info, err := os.Stat(path)
		require.NoError(t, err)
		if info.ModTime().Equal(before) {
			return
		}
	}
	assert.Fail(t, "Identify asks for the file's times")
}

func TestIdentifyDistinguishesFiles(t *testing.T) {
	folder := t.TempDir()
	one, two := filepath.Join(folder, "one"), filepath.Join(folder, "two")
	for _, path := range []string{one, two} {
		require.NoError(t, os.WriteFile(path, nil, 0o600))
	}
	first, err := Identify(one)
	require.NoError(t, err)
	second, err := Identify(two)
	require.NoError(t, err)
	again, err := Identify(one)
	require.NoError(t, err)
	assert.True(t, first.Same(again))
	assert.False(t, first.Same(second))

	require.NoError(t, os.Rename(two, one))
	moved, err := Identify(one)
	require.NoError(t, err)
	assert.True(t, moved.Same(second))
	_, err = Identify(two)
	assert.ErrorIs(t, err, os.ErrNotExist)
}
