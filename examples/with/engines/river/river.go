// Package river names the operations of River jobs.
package river

import (
	"context"
	"strconv"

	"github.com/riverqueue/river/rivertype"

	"github.com/onceward/onceward"
)

// Operation names the operation of a job by its kind, ID and creation. A job that is retried or rescued has the same
// name. The ID alone is not enough: another database counts from 1 too, and so does a table that was truncated. If a job
// makes several calls, append a step to the name of each, such as "/charge".
func Operation(ctx context.Context, job *rivertype.JobRow) context.Context {
	name := job.Kind + "/" + strconv.FormatInt(job.ID, 10) + "/" + strconv.FormatInt(job.CreatedAt.UnixMicro(), 10)
	return onceward.WithOperation(onceward.WithScope(ctx, "river"), name)
}
