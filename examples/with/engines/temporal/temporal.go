// Package temporal names Temporal activities' operations.
package temporal

import (
	"context"
	"errors"
	"net/url"
	"regexp"
	"strconv"

	"go.temporal.io/sdk/activity"

	"github.com/onceward/onceward"
)

// ErrNoActivityID means that the workflow did not set workflow.ActivityOptions.ActivityID. Temporal's own number of an
// activity changes with the workflow's code, and a reset would then charge again.
var ErrNoActivityID = errors.New("set ActivityOptions.ActivityID, such as \"charge\": it names the operation")

// ErrNoWorkflowID means that the activity belongs to a child workflow, and that its parent did not set
// workflow.ChildWorkflowOptions.WorkflowID. Temporal's own ID of a child has the parent's run ID, and a reset would
// then charge again.
var ErrNoWorkflowID = errors.New("set ChildWorkflowOptions.WorkflowID, such as \"refund-991\": it names the operation")

// childID is the ID that Temporal makes up for a child workflow: its parent's run ID, and a number.
var childID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}_[0-9]+$`)

// Operation names the operation for the activity under ctx by its namespace, workflow ID and activity ID. A retried
// activity has the same name, and so has the activity in a workflow that is retried, reset or continued as new.
// Put the period into the activity ID if such a workflow charges once a month: "charge-2026-11".
func Operation(ctx context.Context) (context.Context, error) {
	info := activity.GetInfo(ctx)
	if _, err := strconv.Atoi(info.ActivityID); err == nil {
		return nil, ErrNoActivityID
	}
	if childID.MatchString(info.WorkflowExecution.ID) {
		return nil, ErrNoWorkflowID
	}
	name := url.PathEscape(info.WorkflowExecution.ID) + "/" + url.PathEscape(info.ActivityID) // either may have a slash
	return onceward.WithOperation(onceward.WithScope(ctx, "temporal/"+info.Namespace), name), nil
}
