package main

import (
	"context"
	"net/http"
	"runtime/debug"
	"slices"
)

// engine runs flows. Its methods are safe for concurrent use.
type engine interface {
	// run begins the flow with the name and returns once the flow's end is durable.
	run(ctx context.Context, flow string) error
	close() error
}

// place is where an engine does its work.
type place struct {
	folder   string       // its own, for its database
	provider string       // URL
	client   *http.Client // goes straight to the network
	atOnce   int          // how many flows will run at once
}

// contender is one way to run flows.
type contender struct {
	name   string
	module string // path of the engine's; "": none
	what   string
	open   func(context.Context, place) (engine, error)
}

// The names are those of the tables and of -only.
const (
	nameOnceward  = "onceward"
	nameRiverStep = "river/steps"
	nameRiverFlow = "river/flow"
	nameDBOS      = "dbos"
	nameNone      = "none"
)

var contenders = []contender{
	{nameOnceward, "", "a flow with four steps", openOnceward},
	{nameRiverStep, riverModule, "a job a step, completed together with the insertion of the next", openRiverStep},
	{nameRiverFlow, riverModule, "a job a flow, which keeps its steps in a table of its own", openRiverFlow},
	{nameDBOS, dbosModule, "a workflow with four steps", openDBOS},
	{nameNone, "", "the four calls, recorded by nobody", openNone},
}

// describe returns the engine's description, with its module's version.
func (c contender) describe() string {
	if version := versionOf(c.module); version != "" {
		return c.what + " (" + version + ")"
	}
	return c.what
}

// peers are the contenders that the aim compares with.
var peers = []string{nameRiverStep, nameRiverFlow, nameDBOS}

// versionOf is the module's version in the program; "" if the version is unknown.
func versionOf(module string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	i := slices.IndexFunc(info.Deps, func(m *debug.Module) bool { return m.Path == module })
	if i < 0 {
		return ""
	}
	return info.Deps[i].Version
}
