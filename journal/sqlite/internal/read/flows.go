package read

import (
	"database/sql/driver"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
)

// SelectFlow and SelectSteps select what format.ReadFlow and format.ReadStep read.
const (
	SelectFlow  = "SELECT " + format.FlowColumns + " FROM onceward_flows"
	SelectSteps = "SELECT seq, kind, name, position, parallel, at, result, sum FROM onceward_flow_steps WHERE flow = ? ORDER BY seq"
)

// StepsOf reads the steps of a flow.
func (r *Reader) StepsOf(f *journal.Flow) error {
	return r.Each(SelectSteps, func(v []driver.Value) error {
		step, err := format.ReadStep(f.Handle, v)
		f.Steps = append(f.Steps, step)
		return err
	}, f.Handle)
}

// Flows reads a page.
func (r *Reader) Flows(query string, args []any) (page []journal.Flow, err error) {
	err = r.Each(query, func(v []driver.Value) error {
		f, err := format.ReadFlow(v)
		page = append(page, f)
		return err
	}, args...)
	for i := range page {
		if err == nil {
			err = r.StepsOf(&page[i])
		}
	}
	return page, err
}
