// Package temporal names the operations of Temporal activities.
package temporal

import (
	"context"
	"errors"
	"strconv"

	"go.temporal.io/sdk/activity"

	"github.com/onceward/onceward"
)

// ErrNoActivityID means that the workflow did not set workflow.ActivityOptions.ActivityID. Temporal's own number of an
// activity changes with the workflow's code, and a reset would then charge again.
var ErrNoActivityID = errors.New("set ActivityOptions.ActivityID, such as \"charge\": it names the operation")

// Operation names the operation of the activity under ctx by its namespace, workflow ID and activity ID. A retried
// activity has the same name, and so has the activity of a workflow that is retried, reset or continued as new.
// Put the period into the activity ID if such a workflow charges once a month: "charge-2026-11".
func Operation(ctx context.Context) (context.Context, error) {
	info := activity.GetInfo(ctx)
	if _, err := strconv.Atoi(info.ActivityID); err == nil {
		return nil, ErrNoActivityID
	}
	return onceward.WithOperation(onceward.WithScope(ctx, "temporal/"+info.Namespace), info.WorkflowExecution.ID+"/"+info.ActivityID), nil
}
