package main

import (
	"fmt"
	"time"

	"github.com/onceward/onceward/internal/shown"
)

// A check's levels.
const (
	levelOK   = "ok"
	levelWarn = "warn"
	levelFail = "fail"
)

// checked is one line of doctor's.
type checked struct {
	Check   string `json:"check" doc:"the subject of the check; a stable word"`
	Level   string `json:"level" doc:"ok, warn or fail"`
	Says    string `json:"says"`
	ToDo    string `json:"to_do,omitempty"`
	Runbook string `json:"runbook,omitempty" doc:"a heading of docs/runbook.md"`
}

// examination collects doctor's findings.
type examination struct {
	Checks []checked `json:"checks"`

	now       time.Time
	backups   string
	backupAge time.Duration
	bodies    int
}

func (x *examination) lines() []any { return lines(x.Checks) }

func (x *examination) table(t *table) {
	colours := map[string]string{levelOK: "32", levelWarn: "33", levelFail: "31"}
	for _, k := range x.Checks {
		t.line(t.painted(fmt.Sprintf("%-4s", k.Level), colours[k.Level]) + "  " + k.Check + ": " + shown.Text(k.Says))
		if k.ToDo != "" {
			t.line("        " + shown.Text(k.ToDo))
		}
		if k.Runbook != "" {
			t.line("        docs/runbook.md#" + k.Runbook)
		}
	}
}

func (x *examination) ok(check, format string, args ...any) {
	x.Checks = append(x.Checks, checked{Check: check, Level: levelOK, Says: fmt.Sprintf(format, args...)})
}

// finds adds a finding.
func (x *examination) finds(level, check, says, toDo, runbook string) {
	x.Checks = append(x.Checks, checked{check, level, says, toDo, runbook})
}

// judge adds the finding, or, if all is well, the given text.
func (x *examination) judge(well bool, says string, finding checked) {
	if well {
		finding = checked{Check: finding.Check, Level: levelOK, Says: says}
	}
	x.Checks = append(x.Checks, finding)
}

// since says for how long the oldest of several has been so, if that is known.
func (x *examination) since(oldest *time.Time) string {
	if oldest == nil {
		return ""
	}
	return ", the first of them for " + shown.Duration(x.now.Sub(*oldest))
}

// failed adds a check that could not be made.
func (x *examination) failed(check string, err error) {
	x.finds(levelWarn, check, "the check could not be made: "+err.Error(), "", "")
}
