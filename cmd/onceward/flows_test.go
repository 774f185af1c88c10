package main

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/planted"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// A flow's step is listed with its flow, and found by it.
func TestStepIsFoundByItsFlow(t *testing.T) {
	path, j := journalWith(t)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	f, err := j.GetFlow(t.Context(), journal.Ref{ID: planted.SetAside})
	require.NoError(t, err)
	at := time.Now()
	ref := journal.Ref{Parent: seam.ParentOf(&f), ID: "notify"}
	res, err := j.Apply(t.Context(), machine.Event{Kind: machine.EventBegin, Ref: ref, At: at, Session: s.ID(), Asker: 1,
		Intent: &machine.Intent{Fingerprint: "f", Flow: journal.FlowRef{ID: f.ID, Handle: f.Handle}}})
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), machine.Event{Kind: machine.EventMarkUnknown, Ref: ref, At: at, Session: s.ID(), Claim: res.Operation.Claim, Asker: 1, Cause: "lost", Delivered: true})
	require.NoError(t, err)

	title := planted.SetAside + " " + handleOf(f.Handle)
	assert.Contains(t, runs(t, "attention", "--journal", path).out, title+": notify")
	for _, flow := range []string{planted.SetAside, handleOf(f.Handle)} {
		shown := runs(t, "show", "notify", "--flow", flow, "--journal", path)
		require.Zero(t, shown.code, shown.err)
		assert.Contains(t, shown.out, title)
	}
	assert.Contains(t, runs(t, "show", "notify", "--flow", "order-none", "--journal", path).err, "there is no flow order-none")
}

// adopt --as gives the journal to another deployment, whether or not it was restored. Programs of the deployment
// before are refused from then on.
func TestAdoptForAnotherDeployment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "payments.db")
	open := func(deployment string) error {
		j, err := sqlite.Open(path, sqlite.Options{Deployment: deployment, Volatile: true, Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			err = j.Close()
		}
		return err
	}
	require.NoError(t, open("prod"))
	require.ErrorIs(t, open("staging"), sqlite.ErrDeployment)
	assert.Contains(t, runs(t, "adopt", "--yes", "--journal", path).out, "nothing was done")
	said := runs(t, "adopt", "--as", "staging", "--yes", "--journal", path)
	require.Zero(t, said.code, said.err)
	assert.Contains(t, said.err, "becomes that of deployment 'staging'")
	require.ErrorIs(t, open("prod"), sqlite.ErrDeployment)
	require.NoError(t, open("staging"))
	said = runs(t, "adopt", "--as=", "--yes", "--journal", path)
	require.Zero(t, said.code, said.err)
	require.NoError(t, open("prod"), "the next program names it")
}

// A flow's step below an inbound key is found by the names that its operator knows: the flow's, and the caller's key.
func TestStepIsFoundByTheInboundKey(t *testing.T) {
	path, j := journalWith(t)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	at := time.Now()
	for _, key := range []string{"caller-key-0001", "caller-key-0002"} {
		ref := journal.Ref{Scope: "tenant-9", Parent: seam.Inbound + key, ID: "fulfil-order"}
		begun, err := j.ApplyFlow(t.Context(), machine.FlowEvent{Kind: machine.FlowEventBegin, Ref: ref, At: at, Session: s.ID(), Key: "key-of-" + key,
			Function: journal.FlowFunction{Name: "fulfil", Version: 1}, InputDigest: "v1:" + key})
		require.NoError(t, err)
		step := journal.Ref{Scope: ref.Scope, Parent: seam.ParentOf(&begun.Flow), ID: "notify"}
		_, err = j.Apply(t.Context(), machine.Event{Kind: machine.EventBegin, Ref: step, At: at, Session: s.ID(), Asker: 1,
			Intent: &machine.Intent{Fingerprint: "f", Flow: journal.FlowRef{ID: ref.ID, Parent: ref.Parent, Handle: begun.Flow.Handle}}})
		require.NoError(t, err)
		if key == "caller-key-0001" {
			shown := runs(t, "show", "notify", "--flow", "fulfil-order", "--journal", path)
			require.Zero(t, shown.code, shown.err)
			assert.Contains(t, shown.out, "caller-…")
			assert.NotContains(t, shown.out, key, "a key is shortened")
			assert.Contains(t, runs(t, "show", "notify", "--flow", "fulfil-order", "--full-keys", "--journal", path).out, key)
		}
	}
	said := runs(t, "show", "notify", "--flow", "fulfil-order", "--journal", path)
	assert.Equal(t, exitUsage, said.code)
	assert.Contains(t, said.err, "several flows are called fulfil-order")
	for _, args := range [][]string{{"ls", "--inbound-key", "caller-key-0002"}, {"ls", "--flow", "fulfil-order", "--inbound-key", "caller-key-0002"}} {
		listed := runs(t, append(args, "-o", "jsonl", "--journal", path)...).out
		assert.Equal(t, 1, strings.Count(listed, "\n"), args)
		assert.Contains(t, listed, `"inbound_key":"caller-`)
	}
	assert.Equal(t, 2, strings.Count(runs(t, "ls", "--flow", "fulfil-order", "-o", "jsonl", "--journal", path).out, "\n"))
	assert.Equal(t, 1, strings.Count(runs(t, "flows", "--inbound-key", "caller-key-0001", "-o", "jsonl", "--journal", path).out, "\n"))
	assert.Equal(t, 2, strings.Count(runs(t, "flows", "--name", "fulfil-order", "-o", "jsonl", "--journal", path).out, "\n"))
}
