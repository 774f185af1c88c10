package feed

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/onceward/onceward/journal"
)

// FailedEvent is a listed event that was not handled. Package onceward documents it.
type FailedEvent struct {
	ID    string    `json:"id"`
	Type  string    `json:"type"`
	At    time.Time `json:"at"`
	Since time.Time `json:"since"`
	Err   string    `json:"err"`
}

// Place is the note of a source's bookmark. The bookmark's time is the next pass's From.
type Place struct {
	Last   time.Time     `json:"last"`            // when the last pass began
	Quiet  int           `json:"quiet,omitempty"` // passes without an event since the last event
	Failed []FailedEvent `json:"failed,omitempty"`
	Gap    [2]time.Time  `json:"gap,omitzero"` // the latest time whose events can't be read
}

// PlaceOf reads the note of a bookmark. It returns a new source's place for a note that can't be read.
func PlaceOf(b *journal.Bookmark) (p Place) {
	if json.Unmarshal(b.Note, &p) != nil {
		return Place{}
	}
	return p
}

// Note returns the place as a bookmark's note. It cuts the list of failed events to what a note can hold.
func (p Place) Note() []byte {
	for {
		text, err := json.Marshal(p)
		if err == nil && len(text) <= journal.MaxBookmarkNote || len(p.Failed) == 0 {
			return text
		}
		p.Failed = p.Failed[:len(p.Failed)*9/10]
	}
}

// Joined returns the place of two passes that ran at the same time.
func (p Place) Joined(other Place) Place {
	if other.Last.After(p.Last) {
		p.Last = other.Last
	}
	p.Quiet = min(p.Quiet, other.Quiet)
	if other.Gap[1].After(p.Gap[1]) {
		p.Gap = other.Gap
	}
	for _, e := range other.Failed {
		if !slices.ContainsFunc(p.Failed, func(o FailedEvent) bool { return o.ID == e.ID }) {
			p.Failed = append(p.Failed, e)
		}
	}
	return p
}
