// Package dbos names DBOS steps' operations.
package dbos

import (
	"context"
	"errors"
	"strconv"

	"github.com/dbos-inc/dbos-transact-golang/dbos"

	"github.com/onceward/onceward"
)

// Operation names a step's operation by its workflow's ID and its own number. DBOS keeps both across a recovery.
// ctx is the context that the step's function received.
func Operation(ctx context.Context) (context.Context, error) {
	step, ok := ctx.(dbos.Context)
	if !ok {
		return nil, errors.New("this is not the context of a DBOS step")
	}
	workflowID, err := step.GetWorkflowID()
	if err != nil {
		return nil, err
	}
	number, err := step.GetStepID()
	if err != nil {
		return nil, err
	}
	return onceward.WithOperation(onceward.WithScope(ctx, "dbos"), workflowID+"/"+strconv.Itoa(number)), nil
}
