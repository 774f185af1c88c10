package postgres_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// Verify finds nothing in a sound journal. It names each row that was changed by hand.
func TestVerifyNamesChangedRows(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	j := open(t, server, opts)
	s := join(t, j)
	for i := range 250 {
		begun, err := j.Apply(t.Context(), begin(fmt.Sprint("order-", i), s))
		require.NoError(t, err)
		switch i % 3 {
		case 0:
			_, err = j.Apply(t.Context(), complete(begun.Operation, s))
		case 1:
			_, err = j.Apply(t.Context(), machine.Event{Kind: machine.EventMarkUnknown, Handle: begun.Operation.Handle, Ref: begun.Operation.Ref, Claim: begun.Operation.Claim,
				At: time.Now(), Session: s.ID(), Cause: "no answer"})
		}
		require.NoError(t, err)
	}
	flow, err := j.ApplyFlow(t.Context(), machine.FlowEvent{Kind: machine.FlowEventBegin, Ref: journal.Ref{ID: "ride"}, At: time.Now(), Session: s.ID(), InputDigest: "d"})
	require.NoError(t, err)
	_, err = j.ApplyFlow(t.Context(), machine.FlowEvent{Kind: machine.FlowEventRecord, Handle: flow.Flow.Handle, Claim: flow.Flow.Claim, At: time.Now(),
		Steps: []journal.StepRecord{{Seq: 1, Kind: journal.StepDone, Name: "create", At: time.Now()}}})
	require.NoError(t, err)
	found, err := j.Verify(t.Context())
	require.NoError(t, err)
	require.Empty(t, found)
	of := func(id string) string {
		op, err := j.Get(t.Context(), journal.Ref{ID: id})
		require.NoError(t, err)
		return fmt.Sprint(op.Handle)
	}
	changes := []struct{ change, want string }{
		{"UPDATE operations SET state = 5 WHERE handle = " + of("order-1"), "its row is as it was written"},
		{"DELETE FROM names WHERE handle = " + of("order-4"), "its name finds it"},
		{"DELETE FROM answers WHERE handle = " + of("order-3"), "its request and its answer are those that its row was written with"},
		{"UPDATE flows SET claim = 7", "its rows are as they were written"},
		{"INSERT INTO names VALUES ('0123456789abcdef', 7)", "its name is of an operation that is there"},
		{"DELETE FROM marks WHERE handle = " + of("order-10"), "its marks find it"},
		{"INSERT INTO marks VALUES (1, " + of("order-13") + ")", "its entries are of marks that it has"},
		{"INSERT INTO answers VALUES (7, '', '')", "its request and its answer are of an operation that is there"},
		{"UPDATE flow_steps SET name = 'charge'", "its rows are as they were written"},
		{"DELETE FROM flows", "its steps are of a flow that is there"},
	}
	for _, row := range changes {
		server.Exec(t, strings.NewReplacer(" operations", ` "`+opts.Schema+`".operations`, " answers", ` "`+opts.Schema+`".answers`, " marks", ` "`+opts.Schema+`".marks`,
			" requests", ` "`+opts.Schema+`".requests`, " names", ` "`+opts.Schema+`".names`, " flow_steps", ` "`+opts.Schema+`".flow_steps`, " flows", ` "`+opts.Schema+`".flows`).Replace(row.change))
		found, err = j.Verify(t.Context())
		require.NoError(t, err, row.change)
		assert.Contains(t, fmt.Sprint(found), row.want, row.change)
	}
}
