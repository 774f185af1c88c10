package main

import (
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/planted"
	"github.com/onceward/onceward/journal/sqlite"
)

// levels returns doctor's level for each check, or the worst of them if a check has several lines.
func levels(t *testing.T, args ...string) (map[string]string, int) {
	t.Helper()
	s := runs(t, append([]string{"doctor", "-o", "json"}, args...)...)
	var x examination
	require.NoError(t, json.Unmarshal([]byte(s.out), &x), s.err)
	worst := map[string]string{}
	rank := map[string]int{"": 0, levelOK: 1, levelWarn: 2, levelFail: 3}
	for _, k := range x.Checks {
		if rank[k.Level] > rank[worst[k.Check]] {
			worst[k.Check] = k.Level
		}
		if k.Level != levelOK {
			assert.NotEmpty(t, k.Says)
		}
	}
	return worst, s.code
}

// empty is a journal with nothing wrong in it, and closed.
func empty(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "payments.db")
	j, err := sqlite.Open(path, sqlite.Options{Volatile: true})
	require.NoError(t, err)
	session, err := j.Join(t.Context())
	require.NoError(t, err)
	require.NoError(t, session.End(t.Context()))
	require.NoError(t, j.Close())
	return path
}

// Each defect is found, and is not found in a journal without it.
func TestDoctorFindsEachDefect(t *testing.T) {
	sound, _ := levels(t, "-j", empty(t))
	for _, row := range []struct {
		check, level string
		plant        func(t *testing.T) []string
	}{
		{"mode", levelFail, func(t *testing.T) []string {
			path := empty(t)
			require.NoError(t, os.Chmod(path+"-sidecar", 0o644))
			return []string{"-j", path}
		}},
		{"owner", levelFail, func(t *testing.T) []string {
			if os.Geteuid() != 0 {
				t.Skip("only root can give files away")
			}
			path := empty(t)
			require.NoError(t, os.Chown(path+"-sidecar", 65534, 65534))
			return []string{"-j", path}
		}},
		{"open", levelFail, func(t *testing.T) []string { // a second name
			path := empty(t)
			require.NoError(t, os.Link(path, path+".second"))
			return []string{"-j", path}
		}},
		{"sidecar", levelFail, func(t *testing.T) []string {
			path := empty(t)
			require.NoError(t, os.Remove(path+"-sidecar"))
			return []string{"-j", path}
		}},
		{"sidecar", levelFail, func(t *testing.T) []string { // of another journal
			path, other := empty(t), empty(t)
			text, err := os.ReadFile(other + "-sidecar")
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path+"-sidecar", text, 0o600))
			return []string{"-j", path}
		}},
		{"sidecar", levelFail, func(t *testing.T) []string { // a backup that was not adopted
			path := empty(t)
			require.Equal(t, exitDone, runs(t, "-j", path, "backup", path+".copy").code)
			return []string{"-j", path + ".copy"}
		}},
		{"restored", levelFail, func(t *testing.T) []string {
			path := empty(t)
			require.Equal(t, exitDone, runs(t, "-j", path, "backup", path+".copy").code)
			return []string{"-j", path + ".copy"}
		}},
		{"sqlite", levelFail, func(t *testing.T) []string { // another program set another journal mode
			path := empty(t)
			sqlExec(t, path, "PRAGMA journal_mode = DELETE")
			return []string{"-j", path}
		}},
		{"clock", levelFail, func(t *testing.T) []string {
			path := empty(t)
			j, err := sqlite.Open(path, sqlite.Options{Volatile: true})
			require.NoError(t, err)
			session, err := planted.Plant(t.Context(), j, time.Now().Add(20*time.Hour)) // by a clock that was ahead
			require.NoError(t, err)
			require.NoError(t, session.End(t.Context()))
			require.NoError(t, j.Close())
			return []string{"-j", path}
		}},
		{"sessions", levelFail, func(t *testing.T) []string { // a session's file was removed
			path, _ := journalWith(t)
			files, err := filepath.Glob(path + "-session-*")
			require.NoError(t, err)
			require.Len(t, files, 1)
			require.NoError(t, os.Remove(files[0]))
			return []string{"-j", path}
		}},
		{"sessions", levelFail, func(t *testing.T) []string { // it was replaced
			path, _ := journalWith(t)
			files, err := filepath.Glob(path + "-session-*")
			require.NoError(t, err)
			require.Len(t, files, 1)
			text, err := os.ReadFile(files[0])
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(files[0]+".new", text, 0o600))
			require.NoError(t, os.Rename(files[0]+".new", files[0]))
			return []string{"-j", path}
		}},
		{"sessions", levelWarn, func(t *testing.T) []string { // a dead one holds something
			path, j := journalWith(t)
			require.NoError(t, j.Close())
			return []string{"-j", path}
		}},
		{"unknown", levelWarn, planted1}, {"window", levelWarn, planted1}, {"second-effect", levelFail, planted1}, {"secrets", levelWarn, planted1},
		{"attention", levelWarn, planted1}, {"undelivered", levelWarn, planted1},
		{"wal", levelWarn, func(t *testing.T) []string {
			path, _ := journalWith(t)
			f, err := os.OpenFile(path+"-wal", os.O_WRONLY, 0)
			require.NoError(t, err)
			require.NoError(t, f.Truncate(largeWAL+1))
			require.NoError(t, f.Close())
			return []string{"-j", path}
		}},
		{"backup", levelFail, func(t *testing.T) []string { return []string{"-j", empty(t), "--backup", t.TempDir()} }},
		{"backup", levelFail, func(t *testing.T) []string {
			path, dir := empty(t), t.TempDir()
			require.Equal(t, exitDone, runs(t, "-j", path, "backup", filepath.Join(dir, "old")).code)
			require.NoError(t, os.Chtimes(filepath.Join(dir, "old"), time.Time{}, time.Now().Add(-48*time.Hour)))
			return []string{"-j", path, "--backup", dir}
		}},
	} {
		t.Run(row.check, func(t *testing.T) {
			got, code := levels(t, row.plant(t)...)
			assert.Equal(t, row.level, got[row.check], "%v", got)
			assert.NotEqual(t, row.level, sound[row.check])
			if row.level == levelFail {
				assert.Equal(t, exitFindings, code)
			}
		})
	}
}

func planted1(t *testing.T) []string {
	path, _ := journalWith(t)
	return []string{"-j", path}
}

// A sound journal has nothing that fails, and its newest backup is recent.
func TestDoctorOfAnIntactJournal(t *testing.T) {
	path, dir := empty(t), t.TempDir()
	require.Equal(t, exitDone, runs(t, "-j", path, "backup", filepath.Join(dir, "new")).code)
	got, code := levels(t, "-j", path, "--backup", dir)
	for check, level := range got {
		assert.NotEqual(t, levelFail, level, check)
	}
	assert.Equal(t, levelOK, got["backup"])
	if got["space"] != levelFail {
		assert.Equal(t, exitDone, code)
	}
}

// sqlExec runs a statement on a file that no process has open.
func sqlExec(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	_, err = db.Exec(statement)
	require.NoError(t, err)
	require.NoError(t, db.Close())
}

// Encryption without a checked certificate is a finding, since another program on the network can answer for the server.
func TestDoctorOfAnUnprovenServer(t *testing.T) {
	for address, proven := range map[string]bool{
		"mysql://shop@db.example.com/?tls=true": true, "mysql://shop@db.example.com/?tls=skip-verify": false, "mysql://shop@db.example.com/?tls=preferred": false,
		"postgres://shop@db.example.com/shop?sslmode=verify-full": true, "postgres://shop@db.example.com/shop?sslmode=verify-ca": true,
		"postgres://shop@db.example.com/shop?sslmode=require": false, "postgres://shop@db.example.com/shop": false,
	} {
		t.Run(address, func(t *testing.T) {
			c := &command{journal: address}
			var is bool
			if strings.HasPrefix(address, "mysql") {
				m, err := c.mySQL()
				require.NoError(t, err)
				is = m.proven()
			} else {
				p, err := c.postgreSQL()
				require.NoError(t, err)
				is = p.proven()
			}
			assert.Equal(t, proven, is)
			for near, want := range map[bool]string{true: levelOK, false: map[bool]string{true: levelOK, false: levelWarn}[proven]} {
				x := new(examination)
				x.encrypted(true, is, near, "")
				require.Len(t, x.Checks, 1)
				assert.Equal(t, want, x.Checks[0].Level)
			}
		})
	}
}
