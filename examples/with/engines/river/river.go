// Package river names River jobs' operations.
package river

import (
	"context"
	"strconv"

	"github.com/riverqueue/river/rivertype"

	"github.com/onceward/onceward"
)

// Operation names a job's operation by its kind, ID and creation. A job that is retried or rescued has the same
// name. The ID alone is not enough: another database counts from 1 too, and so does a table that was truncated. If a job
// makes several calls, append a step to each name, such as "/charge".
func Operation(ctx context.Context, job *rivertype.JobRow) context.Context {
	name := job.Kind + "/" + strconv.FormatInt(job.ID, 10) + "/" + strconv.FormatInt(job.CreatedAt.UnixMicro(), 10)
	return onceward.WithOperation(onceward.WithScope(ctx, "river"), name)
}
