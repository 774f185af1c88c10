package temporal_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	sdkclient "go.temporal.io/sdk/client"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/onceward/onceward/examples/with/engines/enginetest"
	"github.com/onceward/onceward/examples/with/engines/temporal"
	"github.com/onceward/onceward/providers/providertest"
)

// charging is a one-activity workflow.
func charging(ctx workflow.Context, activityID string) (id string, err error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ActivityID:          activityID,
		StartToCloseTimeout: time.Minute,
		RetryPolicy:         &sdktemporal.RetryPolicy{InitialInterval: time.Second, MaximumAttempts: 3, NonRetryableErrorTypes: []string{"noID"}},
	})
	err = workflow.ExecuteActivity(ctx, "charge").Get(ctx, &id)
	return id, err
}

// environment raises the limits that the SDK has for wall time, which a busy machine exceeds.
func environment() *testsuite.TestWorkflowEnvironment {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Minute)
	return env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute})
}

// No Temporal server runs here: this is the SDK's test suite.
func TestRetriedActivityChargesOnce(t *testing.T) {
	for name, faults := range map[string][]providertest.Fault{
		"it fails after its effect":  nil,
		"its answer is lost as well": {providertest.DropAfter()},
	} {
		t.Run(name, func(t *testing.T) {
			box := enginetest.Box(t)
			box.Script(faults...)
			p := enginetest.Plan{Provider: box.URL, Journal: filepath.Join(t.TempDir(), "journal.db")}
			client, end, err := p.Client()
			require.NoError(t, err)
			t.Cleanup(end)

			var ids []string
			charge := func(ctx context.Context) (string, error) {
				ctx, err := temporal.Operation(ctx)
				if err != nil {
					return "", err
				}
				id, err := p.Charge(ctx, client.HTTPClient())
				ids = append(ids, id)
				if len(ids) == 1 {
					return "", errors.New("the worker failed before it could report")
				}
				return id, err
			}
			for range 2 { // the second time as after a reset: another run in the same workflow
				env := environment()
				env.RegisterActivityWithOptions(charge, activity.RegisterOptions{Name: "charge"})
				env.ExecuteWorkflow(charging, "charge")
				require.NoError(t, env.GetWorkflowError())
				var id string
				require.NoError(t, env.GetWorkflowResult(&id))
				assert.Equal(t, ids[0], id)
			}
			assert.Len(t, ids, 3)
			assert.Len(t, box.Effects(), 1, "%s", box.Ledger())
		})
	}
}

func TestActivityWithoutAnID(t *testing.T) {
	env := environment()
	env.RegisterActivityWithOptions(func(ctx context.Context) (string, error) {
		_, err := temporal.Operation(ctx)
		require.ErrorIs(t, err, temporal.ErrNoActivityID)
		return "", sdktemporal.NewNonRetryableApplicationError(err.Error(), "noID", err)
	}, activity.RegisterOptions{Name: "charge"})
	env.ExecuteWorkflow(charging, "")
	require.ErrorContains(t, env.GetWorkflowError(), temporal.ErrNoActivityID.Error())
}

// A slash in an ID makes no two activities one operation.
func TestIDsWithASlash(t *testing.T) {
	box := enginetest.Box(t)
	p := enginetest.Plan{Provider: box.URL, Journal: filepath.Join(t.TempDir(), "journal.db")}
	client, end, err := p.Client()
	require.NoError(t, err)
	t.Cleanup(end)
	for _, ids := range [][2]string{{"order/7", "charge"}, {"order", "7/charge"}, {"order%2F7", "charge"}} {
		env := environment()
		env.SetStartWorkflowOptions(sdkclient.StartWorkflowOptions{ID: ids[0]})
		env.RegisterActivityWithOptions(func(ctx context.Context) (string, error) {
			ctx, err := temporal.Operation(ctx)
			if err != nil {
				return "", err
			}
			return p.Charge(ctx, client.HTTPClient())
		}, activity.RegisterOptions{Name: "charge"})
		env.ExecuteWorkflow(charging, ids[1])
		require.NoError(t, env.GetWorkflowError())
	}
	assert.Len(t, box.Effects(), 3, "%s", box.Ledger())
}

// Temporal names a child by its parent's run, which is another one after a reset.
func TestChildWorkflowWithoutAnID(t *testing.T) {
	env := environment()
	env.SetStartWorkflowOptions(sdkclient.StartWorkflowOptions{ID: "0198e6d7-b4bf-7789-8c60-6e3c808ed385_11"})
	env.RegisterActivityWithOptions(func(ctx context.Context) (string, error) {
		_, err := temporal.Operation(ctx)
		require.ErrorIs(t, err, temporal.ErrNoWorkflowID)
		return "", sdktemporal.NewNonRetryableApplicationError(err.Error(), "noID", err)
	}, activity.RegisterOptions{Name: "charge"})
	env.ExecuteWorkflow(charging, "charge")
	require.ErrorContains(t, env.GetWorkflowError(), temporal.ErrNoWorkflowID.Error())
}
