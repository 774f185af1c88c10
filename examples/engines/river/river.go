// Package river names the operations of River jobs.
package river

import (
	"context"
	"strconv"

	"github.com/riverqueue/river/rivertype"

	"github.com/onceward/onceward"
)

// Operation names the operation of a job by its kind and ID. A job that is retried or rescued has the same name. If a
// job makes several calls, append a step to the name of each, such as "/charge".
func Operation(ctx context.Context, job *rivertype.JobRow) context.Context {
	return onceward.WithOperation(onceward.WithScope(ctx, "river"), job.Kind+"/"+strconv.FormatInt(job.ID, 10))
}
