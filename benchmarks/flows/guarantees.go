package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// guarantee is what becomes of a flow in some event, by engine: as their documentation and source say, of River v0.51
// and DBOS v1.8.
type guarantee struct {
	event   string
	answers []promise
}

type promise struct{ who, what string }

// The contenders that a promise is about.
const (
	both = "river, dbos"
	jobs = "river"
)

var guarantees = []guarantee{
	{"Durable before a request leaves", []promise{
		{nameOnceward, "the request itself with its key, and everything before it"},
		{nameRiverStep, "the job, with what the step before returned"},
		{nameRiverFlow + ", " + nameDBOS, "the steps before it"},
	}},
	{"The process dies between a step's effect and its record", []promise{
		{nameOnceward, "the step is made again: its call is answered from the journal, or sent with the same key and bytes"},
		{both, "the step is made again and its call sent again; one effect here, since the benchmark's own code makes a key of flow and step"},
	}},
	{"… and by then the provider has forgotten its keys", []promise{
		{nameOnceward, "nothing is sent: the operation is unknown, until it is reconciled or resolved"},
		{both, "sent again: a second effect"},
	}},
	{"The step's request comes out differently the second time", []promise{
		{nameOnceward, "ErrKeyReused, nothing is sent"},
		{both, "sent: what it means is the provider's to say"},
	}},
	{"A flow that was cut off goes on", []promise{
		{nameOnceward, "at the next Resume, at once: the dead process holds its lock no more; never in two hands"},
		{jobs, "when its job counts as stuck: after an hour by default (RescueStuckJobsAfter), still running or not"},
		{nameDBOS, "at the next Launch with the same executor ID and application version (by default the binary's hash), which takes the last process for dead"},
	}},
	{"Its steps were renamed, moved or removed meanwhile", []promise{
		{nameOnceward, "ErrFlowChanged names the step"},
		{jobs, "goes unnoticed"},
		{nameDBOS, "an error where another name stands in a step's place"},
	}},
	{"It keeps failing", []promise{
		{nameOnceward, "backs off; set aside after 10 failures, with its history"},
		{jobs, "backs off; discarded after 25 attempts"},
		{nameDBOS, "a step is repeated if WithStepMaxRetries says so; then its error ends the workflow"},
	}},
	{"synchronous, as it comes", []promise{
		{nameOnceward, "FULL, read back"},
		{jobs, "that of the database which it is given: FULL, unless told otherwise"},
		{nameDBOS, "NORMAL: the latest commits go with the power; FULL in a database which it is given, as here"},
	}},
	{"Beyond flows", []promise{
		{nameOnceward, "nothing: it calls providers once"},
		{jobs, "queues, priorities, schedules, unique jobs; Postgres, many hosts"},
		{nameDBOS, "queues, schedules, child workflows, messages, streams; Postgres, many hosts"},
	}},
}

func printGuarantees(out io.Writer) error {
	for _, g := range guarantees {
		fmt.Fprintln(out, g.event)
		w := tabwriter.NewWriter(out, 14, 0, 2, ' ', 0)
		for _, a := range g.answers {
			fmt.Fprintf(w, "  %s\t%s\n", a.who, a.what)
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}
