package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/planted"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/seal"
)

// keysOf writes a file with these keys. No output may have a part of their secrets.
func keysOf(t *testing.T, ids ...string) (path string, ring *seal.Ring) {
	t.Helper()
	var text strings.Builder
	for _, id := range ids {
		secret := strings.Repeat("canary-"+id, seal.SecretSize)[:seal.SecretSize]
		text.WriteString(id + ":" + base64.StdEncoding.EncodeToString([]byte(secret)) + "\n")
	}
	path = filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o600))
	ring, err := seal.ParseRing([]byte(text.String()))
	require.NoError(t, err)
	return path, ring
}

func plantSealed(t *testing.T, path string, ring *seal.Ring) *sqlite.Journal {
	t.Helper()
	j, err := sqlite.Open(path, sqlite.Options{Volatile: true, Seal: ring})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	_, err = planted.Plant(t.Context(), j, time.Now())
	require.NoError(t, err)
	require.NoError(t, planted.PlantReceipts(t.Context(), j, time.Now().Add(-24*time.Hour), 7*24*time.Hour))
	return j
}

// With its keys, a sealed journal is shown as one in clear. Without its keys, each verb shows the clear fields and names
// the key. A verb that needs a payload says what to do.
func TestSealedJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "payments.db")
	keys, ring := keysOf(t, "k1")
	plantSealed(t, path, ring)

	for name, args := range map[string][]string{
		"show": {"show", planted.Completed}, "show-reveal": {"show", "#2", "--reveal"}, "flow-reveal": {"flow", "#1", "--reveal"},
		"receipt-reveal": {"receipt", "#1", "--reveal"}, "flow": {"flow", planted.SetAside}, "export-bodies": {"export", "--bodies"}, "verify": {"verify"},
	} {
		s := runs(t, append([]string{"-j", path, "-o", "json", "--keys", keys}, args...)...)
		require.Zero(t, s.code, s.err)
		got := s.out
		for _, v := range varying {
			got = v.is.ReplaceAllString(got, v.as)
		}
		want, err := os.ReadFile(filepath.Join("testdata", name+".json"))
		require.NoError(t, err)
		if name == "verify" {
			assert.Contains(t, got, `"sound": true`)
			continue
		}
		assert.Equal(t, string(want), got, name)
	}

	for _, one := range []struct {
		verb string
		says []string
	}{
		{"ls", []string{planted.Completed}}, {"attention", []string{"its cause is sealed by k1"}}, {"why " + planted.Unknown, []string{"will be sent"}},
		{"show " + planted.Completed, []string{"payload sealed by k1", "request sealed by k1", "answer 200, sealed by k1"}},
		{"flows", []string{"sealed by k1"}}, {"flow " + planted.SetAside, []string{"payload sealed by k1", "reserve"}},
		{"receipts", []string{"3 completed"}}, {"receipt #1", []string{"answer 201, sealed by k1"}},
		{"export", []string{`"sealed_by":"k1"`}}, {"verify", []string{"sound"}}, {"stats", []string{"unknown"}}, {"doctor", []string{"bodies are sealed by k1"}},
	} {
		s := runs(t, append([]string{"-j", path}, strings.Fields(one.verb)...)...)
		assert.Contains(t, []int{exitDone, exitFindings}, s.code, one.verb+s.err)
		out := strings.Join(strings.Fields(s.out), " ")
		for _, says := range one.says {
			assert.Contains(t, out, says, one.verb)
		}
		assert.NotContains(t, s.out+s.err, "api.stripe.com/v1/charges?", one.verb)
	}
	for _, verb := range []string{
		"show #2 --reveal", "flow #1 --reveal", "receipt #1 --reveal", "export --bodies", "flow retry " + planted.SetAside,
		"resolve " + planted.Unknown + " --send-again --because x --yes --seen 0.1",
		"compare - --provider stripe --from " + time.Now().UTC().Add(-48*time.Hour).Format(time.DateOnly) + " --to " + time.Now().UTC().Add(-time.Second).Format(time.RFC3339),
	} {
		s := runsWith(t, "id,reference,amount,currency,time\n", append([]string{"-j", path}, strings.Fields(verb)...)...)
		assert.Equal(t, exitRefused, s.code, verb+s.err)
		assert.Contains(t, s.err, `the key "k1"`, verb)
		assert.Contains(t, s.err, "--keys", verb)
	}
	other, _ := keysOf(t, "k2")
	s := runs(t, "-j", path, "--keys", keys, "doctor")
	assert.Contains(t, s.out, "no payload is in clear", s.err)
	s = runs(t, "-j", path, "--keys", other, "show", planted.Completed)
	assert.Zero(t, s.code, s.err)
	assert.Contains(t, s.out, "sealed by k1")

	s = runs(t, "-j", path, "resolve", planted.Unknown, "--executed", "--because", "the dashboard shows it", "--yes", "--seen", "0.1")
	assert.Zero(t, s.code, s.err)
	assert.Contains(t, s.out, "sealed by k1")
	s = runs(t, "-j", path, "--keys", keys, "flow", "retry", planted.SetAside)
	assert.Zero(t, s.code, s.err)
	s = runs(t, "-j", path, "--keys", other, "cancel", planted.Unsent, "--scope", planted.Scope, "--yes", "--seen", "0.1")
	assert.NotZero(t, s.code, "a command that lacks the keys seals nothing")
	assert.Contains(t, s.err, `"k1"`)
}

// A rotation on a journal that was in clear: seal status says when a key and ReadClear are needed no more.
func TestSealStatus(t *testing.T) {
	path, clear := journalWith(t)
	keys, ring := keysOf(t, "k1")
	status := func(args ...string) (is sealStatus) {
		t.Helper()
		s := runs(t, append([]string{"-j", path, "-o", "json", "seal", "status"}, args...)...)
		require.Zero(t, s.code, s.err)
		require.NoError(t, json.Unmarshal([]byte(s.out), &is))
		return is
	}
	before := status()
	assert.Empty(t, before.Keys)
	assert.Positive(t, before.Clear)
	assert.Equal(t, []string{"The journal is not sealed: programs seal by Options.Seal."}, before.ToDo)
	s := runs(t, "-j", path, "--keys", keys, "flow", "retry", planted.SetAside)
	assert.Contains(t, s.err, "a journal of another program is not sealed", "the command never seals a journal first")
	require.NoError(t, clear.Close())

	begin := func(ring *seal.Ring, id string) {
		j, err := sqlite.Open(path, sqlite.Options{Volatile: true, Seal: ring.ReadClear()})
		require.NoError(t, err)
		session, err := j.Join(t.Context())
		require.NoError(t, err)
		_, err = j.Apply(t.Context(), machine.Event{Kind: machine.EventBegin, Ref: journal.Ref{ID: id}, At: time.Now(), Session: session.ID(), Asker: 1,
			Intent: &machine.Intent{Fingerprint: "f", Key: id, Request: journal.Request{Method: "POST", URL: "https://api.example.com/"}}})
		require.NoError(t, err)
		require.NoError(t, j.Close())
	}
	begin(ring, "first")
	rotated, second := keysOf(t, "k2", "k1")
	begin(second, "second")

	is := status("--keys", rotated)
	assert.Equal(t, []sealKey{{"k1", 2, 2}, {"k2", 2, 1}}, is.Keys)
	assert.Equal(t, before.Clear, is.Clear)
	require.Len(t, is.ToDo, 1)
	assert.Contains(t, is.ToDo[0], "programs need Ring.ReadClear until none is left")
	s = runs(t, "-j", path, "--keys", rotated, "-o", "jsonl", "doctor")
	assert.Contains(t, s.out, fmt.Sprintf(`{"check":"sealed","level":"warn","says":"%d payloads are in clear`, before.Clear))
	alone, _ := keysOf(t, "k3", "k2")
	is = status("--keys", alone)
	assert.Equal(t, []sealKey{{"k1", 2, 0}, {"k2", 2, 2}, {"k3", 0, 1}}, is.Keys)
	assert.Equal(t, "k1 is not in --keys, and 2 payloads need it: keep it.", is.ToDo[0])
	assert.Equal(t, "k3 seals what comes next.", is.ToDo[1])

	s = runs(t, "-j", path, "--keys", rotated, "cancel", "first", "--yes", "--seen", "0.1")
	assert.Equal(t, exitRefused, s.code, s.err) // in flight
	unsent := []string{"-j", path, "cancel", planted.Unsent, "--scope", planted.Scope, "--yes", "--seen", "0.1"}
	s = runs(t, append(unsent, "--keys", rotated)...)
	assert.NotZero(t, s.code, "a forged operation may be in clear")
	assert.Contains(t, s.err, "leave --keys and ONCEWARD_KEYS out")
	s = runs(t, unsent...)
	assert.Zero(t, s.code, s.err)
	both := runs(t, "-j", path, "--keys", rotated, "export")
	require.Zero(t, both.code, both.err)
	assert.NotContains(t, both.out, "sealed_by", "clear and sealed operations are read")
	s = runs(t, "-j", path, "--keys", rotated, "verify")
	assert.Zero(t, s.code, s.out+s.err)
	s = runs(t, "-j", path, "--keys", rotated, "seal", "status")
	assert.Contains(t, strings.Join(strings.Fields(s.out), " "), "KEY PAYLOADS PLACE IN --keys k1 2 2 k2 2 1 in clear")
}

// Seal status advises in rarer situations too.
func TestSealStatusAdvises(t *testing.T) {
	for _, one := range []struct {
		has  journal.SealStatus
		ring []string
		says string
	}{
		{journal.SealStatus{Keys: []string{"k1", "k2"}, Boxes: map[string]int64{"k2": 1}}, []string{"k2", "k1"}, "k1 has sealed none of the payloads. Forget it once"},
		{journal.SealStatus{Keys: []string{"k1"}, Boxes: map[string]int64{"k1": 1}}, []string{"k1", "k2"}, "k2 has sealed nothing yet. To rotate"},
		{journal.SealStatus{Boxes: map[string]int64{"k1": 1}}, nil, "the journal's list of keys is gone"},
		{journal.SealStatus{Keys: []string{"k1"}, Boxes: map[string]int64{"k1": 1}}, nil, "No payload is in clear"},
	} {
		assert.Contains(t, sealStatusOf(one.has, one.ring).ToDo[0], one.says)
	}
}

// The file with the keys is refused before anything is opened, and its text is in no message.
func TestKeysFile(t *testing.T) {
	path, _ := journalWith(t)
	keys, _ := keysOf(t, "k1")
	open := filepath.Join(t.TempDir(), "open")
	text, err := os.ReadFile(keys)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(open, text, 0o644))
	require.NoError(t, os.Chmod(open, 0o644))
	noKeys := filepath.Join(t.TempDir(), "none")
	require.NoError(t, os.WriteFile(noKeys, []byte("k1 "+string(text)), 0o600))
	for _, one := range []struct {
		file, says string
		code       int
	}{
		{keys + "-gone", "there is no file", exitNotFound}, {open, "chmod 600", exitRefused}, {t.TempDir(), "is a folder", exitRefused},
		{noKeys, "line 1 of the keys", exitRefused}, {path, "larger than", exitRefused},
	} {
		s := runs(t, "-j", path, "--keys", one.file, "ls")
		assert.Equal(t, one.code, s.code, s.err)
		assert.Contains(t, s.err, one.says)
		assert.NotContains(t, s.out+s.err, string(text[3:20]), "a secret")
		in, err := tryIn(t.Context(), []string{"ONCEWARD_KEYS=" + one.file}, "", "-j", path, "ls")
		require.NoError(t, err)
		assert.Equal(t, s, in)
	}
	s := runs(t, "--keys", open, "version")
	assert.Zero(t, s.code, "a verb without a journal needs no keys")
}

func TestSealedInADatabase(t *testing.T) { onEach(t, sealedInDatabase) }

func sealedInDatabase(t *testing.T, server server) {
	p := databaseWith(t, server)
	keys, ring := keysOf(t, "k1")
	j := p.open(t, p.schema, ring.ReadClear())
	defer j.Close()
	session, err := j.Join(t.Context())
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), machine.Event{Kind: machine.EventBegin, Ref: journal.Ref{ID: "sealed"}, At: j.Now(), Session: session.ID(), Asker: 1,
		Intent: &machine.Intent{Fingerprint: "f", Key: "sealed", Request: journal.Request{Method: "POST", URL: "https://api.example.com/sealed"}}})
	require.NoError(t, err)

	assert.Contains(t, p.runs(t, "show", "sealed").out, "sealed by k1")
	assert.Contains(t, p.runs(t, "--keys", keys, "show", "sealed").out, "https://api.example.com/sealed")
	assert.Contains(t, p.runs(t, "--keys", keys, "show", planted.Completed).out, "https://api.stripe.com/v1/charges", "in clear")
	s := p.runs(t, "--keys", keys, "-o", "json", "seal", "status")
	require.Zero(t, s.code, s.err)
	var is sealStatus
	require.NoError(t, json.Unmarshal([]byte(s.out), &is))
	assert.Equal(t, []sealKey{{"k1", 2, 1}}, is.Keys)
	assert.Positive(t, is.Clear)
}
