package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/planted"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
)

// A step of a flow is listed with its flow, and found by it.
func TestStepIsFoundByItsFlow(t *testing.T) {
	path, j := journalWith(t)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	f, err := j.GetFlow(t.Context(), journal.Ref{ID: planted.SetAside})
	require.NoError(t, err)
	at := time.Now()
	ref := journal.Ref{Parent: seam.ParentOf(&f), ID: "notify"}
	res, err := j.Apply(t.Context(), journal.Event{Kind: journal.EventBegin, Ref: ref, At: at, Session: s.ID(), Asker: 1,
		Intent: &journal.Intent{Fingerprint: "f", Flow: journal.FlowRef{ID: f.ID, Handle: f.Handle}}})
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), journal.Event{Kind: journal.EventDoubt, Ref: ref, At: at, Session: s.ID(), Claim: res.Operation.Claim, Asker: 1, Cause: "lost", Delivered: true})
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
