package rowstore

import (
	"context"

	"github.com/onceward/onceward/journal"
)

// Flow is a flow in the database's form: the columns for indexes and conditions, and encoded parts that no driver
// reads. Times are milliseconds since 1970.
type Flow struct {
	Handle       int64
	Name         Digest
	Ref          journal.Ref
	Function     journal.FlowFunction
	State        uint8 // journal.FlowState
	Holder       string
	HasDue       bool
	Due          int64 // below 0 if it is put off for long
	HasEnded     bool
	Ended        int64
	Tombstone    bool
	Claim        int64
	Facts, Input []byte // Facts have a checksum of all of the row

	// Locked says that another transaction holds the row. Only Handle is set then.
	Locked bool

	box []byte // in Facts, once they were decoded; nil: none
}

// Step is a step's record with its checksum.
type Step struct {
	journal.StepRecord
	Sum int64
}

// FlowIndex is an order in which flows are found without their names.
type FlowIndex uint8

const (
	// FlowsByHandle has all flows.
	FlowsByHandle FlowIndex = iota
	// FlowsByDue has waiting flows with Due from -By to By, by Due and handle.
	FlowsByDue
	// FlowsRunning has running flows, by handle.
	FlowsRunning
	// FlowsAside has flows that are set aside, by handle.
	FlowsAside
	// FlowsEnded has flows that ended at or before By and are no tombstones, by Ended and handle.
	FlowsEnded
)

// FlowScan selects a page of flows.
type FlowScan struct {
	Index  FlowIndex
	By     int64
	After  Position // exclusive
	Before int64    // handle, exclusive; 0 means none. FlowsByHandle
	Newest bool     // handles in descending order. FlowsByHandle
	Limit  int
}

// FlowCount is how many flows a database has.
type FlowCount struct {
	Begun, Running, Waiting, Aside int64
	Late                           int64 // waiting ones with Due at or before the given time
}

// FlowReader reads flows.
type FlowReader interface {
	// Flow returns the flow with a handle, or with a name if the handle is 0. Nil means none.
	Flow(ctx context.Context, handle int64, name Digest, lock Lock) (*Flow, error)
	Steps(ctx context.Context, handle int64) ([]Step, error)
	Flows(ctx context.Context, scan FlowScan) ([]*Flow, error)
	CountFlows(ctx context.Context, late int64) (FlowCount, error)
}

// FlowWriter writes flows that the transaction has locked.
type FlowWriter interface {
	FlowHandle(ctx context.Context) (int64, error)
	// PutFlow writes a row. If the name of a new one exists, it returns ErrMissed, or a later method of the Tx does.
	PutFlow(ctx context.Context, f *Flow, insert bool) error
	// AddSteps leaves out those whose Seq is there.
	AddSteps(ctx context.Context, handle int64, steps []Step) error
	RemoveSteps(ctx context.Context, handle int64) error
}
