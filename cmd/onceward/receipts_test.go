package main

import (
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/planted"
	keys "github.com/onceward/onceward/internal/receipts"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

func receiptIn(t *testing.T, j *sqlite.Journal, name keys.Name) (journal.Receipt, error) {
	t.Helper()
	return j.GetReceipt(t.Context(), name.Receipt())
}

func TestResolveReceipt(t *testing.T) {
	path, j := withReceipts(t)
	at := func(args ...string) said { return runs(t, append([]string{"-j", path, "-o", "json"}, args...)...) }
	ofTenant := []string{"--tenant", planted.Tenant}
	ofMessage := []string{"--consumer", planted.Consumer, "--source", planted.Source, "--replay", "2026"}
	seenOf := func(key string, of []string) string {
		var found receiptDetail
		s := at(append([]string{"receipt", key}, of...)...)
		require.NoError(t, json.Unmarshal([]byte(s.out), &found), s.err)
		return found.Seen
	}
	reserved, unheard := seenOf(planted.ReservedKey, ofTenant), seenOf(planted.UnknownEvent, ofMessage)
	resolve := func(key string, of []string, more ...string) said {
		return at(append(append([]string{"receipt", "resolve", key}, of...), more...)...)
	}

	t.Run("required flags", func(t *testing.T) {
		for _, more := range [][]string{
			{"--because", "x"},
			{"--executed", "--answer", "-"},
			{"--executed", "--not-executed", "--because", "x"},
			{"--executed", "--because", "x", "--yes", "--seen", "1.1"},
			{"--executed", "--because", "x", "--answer-status", "99", "--yes", "--seen", "1.1"},
			{"--not-executed", "--because", "x", "--answer", "-", "--yes", "--seen", "1.1"},
			{"--not-executed", "--because", "x", "--yes"},
			{"--not-executed", "--because", "x", "--yes", "--seen", "1"},
			{"--not-executed", "--because", "x"}, // there is no terminal to ask on
		} {
			s := resolve(planted.ReservedKey, ofTenant, more...)
			assert.Equal(t, exitUsage, s.code, "%v: %s", more, s.err)
			assert.Empty(t, s.out)
		}
		s := resolve(planted.UnknownEvent, ofMessage, "--executed", "--because", "x", "--answer-status", "200", "--yes", "--seen", unheard)
		assert.Equal(t, exitUsage, s.code, s.err)
	})
	t.Run("an answered, moved or missing receipt is left alone", func(t *testing.T) {
		for _, row := range []struct {
			key  string
			of   []string
			seen string
			code int
			says string
		}{
			{planted.AnsweredKey, ofTenant, "1.1", exitRefused, "only a reserved one"},
			{planted.ReservedKey, ofTenant, strings.TrimSuffix(reserved, "1") + "2", exitRefused, "read it again"},
			{planted.ReservedKey, ofTenant, "4711.1", exitRefused, "read it again"}, // it was freed since, and is reserved anew
			{planted.ReservedKey, []string{"--tenant", "globex"}, "1.1", exitNotFound, "no receipt"},
			{planted.ReservedKey, nil, "1.1", exitNotFound, "--tenant"},
			{"#4711", nil, "1.1", exitNotFound, "no receipt"},
			{"#2", append([]string{"--literal"}, ofTenant...), "1.1", exitNotFound, "no receipt"},
		} {
			s := resolve(row.key, row.of, "--not-executed", "--because", "x", "--yes", "--seen", row.seen)
			assert.Equal(t, row.code, s.code, "%v: %s", row, s.err)
			assert.Contains(t, s.err, row.says)
			assert.Empty(t, s.out)
		}
		r, err := receiptIn(t, j, keys.Name{Tenant: planted.Tenant, Key: planted.ReservedKey})
		require.NoError(t, err)
		assert.Equal(t, journal.ReceiptReserved, r.State)
	})
	t.Run("its answer is recorded, with the operator's name", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "answer.json")
		require.NoError(t, os.WriteFile(file, []byte(`{"refunded":true}`), 0o600))
		s := resolve(planted.ReservedKey, ofTenant, "--executed", "--answer", file, "--answer-status", "201", "--because", "the refund is in the ledger", "--by", "ann", "--yes", "--seen", reserved)
		require.Equal(t, exitDone, s.code, s.err)
		var said receiptDetail
		require.NoError(t, json.Unmarshal([]byte(s.out), &said))
		assert.Equal(t, "completed", said.State)
		assert.Empty(t, said.NeedsAttention)
		r, err := receiptIn(t, j, keys.Name{Tenant: planted.Tenant, Key: planted.ReservedKey})
		require.NoError(t, err)
		assert.Equal(t, 201, r.Answer.Status)
		assert.Equal(t, "application/json", r.Answer.Header.Get("Content-Type"))
		assert.Equal(t, `{"refunded":true}`, string(r.Answer.Body))
		assert.Equal(t, "resolved by ann: the refund is in the ledger", r.Cause)
		s = resolve(planted.ReservedKey, ofTenant, "--not-executed", "--because", "x", "--yes", "--seen", reserved)
		assert.Equal(t, exitRefused, s.code, s.err)
	})
	t.Run("a message that had no effect is free", func(t *testing.T) {
		s := resolve(planted.UnknownEvent, ofMessage, "--not-executed", "--because", "the ledger has none", "--yes", "--seen", unheard)
		require.Equal(t, exitDone, s.code, s.err)
		assert.Contains(t, s.out, `"state": "absent"`)
		_, err := receiptIn(t, j, keys.Name{Consumer: planted.Consumer, Source: planted.Source, Replay: "2026", Key: planted.UnknownEvent})
		require.ErrorIs(t, err, journal.ErrNotFound)
		assert.NotContains(t, at("attention").out, `"receipts"`, "nothing of a receipt needs attention any more")
	})
}

// A journal without receipts has an empty list, and no receipt.
func TestNoReceipts(t *testing.T) {
	path, _ := journalWith(t)
	s := runs(t, "-j", path, "-o", "json", "receipts")
	assert.Equal(t, exitDone, s.code, s.err)
	assert.JSONEq(t, `{"receipts": []}`, s.out)
	assert.Equal(t, exitNotFound, runs(t, "-j", path, "receipt", "key-0001", "--tenant", "acme").code)
	assert.Equal(t, exitNotFound, runs(t, "-j", path, "receipt", "#1").code)
	for _, args := range [][]string{{"--limit", "0"}, {"--state", "odd"}, {"--after", "x"}, {"--tenant", "a", "--consumer", "b"}} {
		assert.Equal(t, exitUsage, runs(t, append([]string{"-j", path, "receipts"}, args...)...).code, args)
	}
}

// The verbs for upkeep include receipts. reap removes the expired ones, backup counts the copied ones,
// and stats and doctor report them.
func TestUpkeepOfReceipts(t *testing.T) {
	path, j := journalWith(t)
	require.NoError(t, planted.PlantReceipts(t.Context(), j, time.Now().Add(-9*24*time.Hour), time.Millisecond))
	at := func(args ...string) said { return runs(t, append([]string{"-j", path}, args...)...) }

	assert.Equal(t, exitFindings, at("stats", "--fail-if", "receipts-reserved>1").code)
	assert.Equal(t, exitFindings, at("stats", "--fail-if", "receipts-reserved-age>200h").code)
	assert.Equal(t, exitDone, at("stats", "--fail-if", "receipts>5").code)

	s := at("backup", filepath.Join(t.TempDir(), "copy.db"))
	require.Equal(t, exitDone, s.code, s.err)
	assert.Contains(t, s.out, "sound, 5 receipts")

	s = at("reap", "--keep", "2160h")
	require.Equal(t, exitDone, s.code, s.err)
	assert.Contains(t, s.out, "3 receipts")
	r, err := receiptIn(t, j, keys.Name{Tenant: planted.Tenant, Key: planted.AnsweredKey})
	require.NoError(t, err)
	assert.Nil(t, r.Answer, "its key is still refused")
	assert.Equal(t, exitDone, at("verify").code)
	assert.NotContains(t, at("doctor", "-o", "json").out, "receipts-expired")

	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), "UPDATE onceward_receipts SET ends_at = 1 WHERE state = 2") // as if no process had reaped since
	require.NoError(t, errors.Join(err, db.Close()))
	assert.Contains(t, at("doctor", "-o", "json").out, "receipts-expired")
}
