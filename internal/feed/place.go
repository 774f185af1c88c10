package feed

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
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

const bookmarkPrefix = "events "

// BookmarkOf names a source's bookmark.
func BookmarkOf(provider, scope, account string) string {
	name := bookmarkPrefix + url.QueryEscape(provider) + " " + url.QueryEscape(scope) + " " + url.QueryEscape(account)
	if len(name) > journal.MaxBookmarkName {
		sum := sha256.Sum256([]byte(name))
		name = bookmarkPrefix + url.QueryEscape(provider) + " sha256:" + hex.EncodeToString(sum[:])
	}
	return name
}

// SourceOf returns a bookmark's source, in words, or false for another kind of bookmark.
func SourceOf(bookmark string) (source string, is bool) {
	text, is := strings.CutPrefix(bookmark, bookmarkPrefix)
	parts := strings.SplitN(text, " ", 3)
	for i, title := range []string{"", ", scope ", ", account "} {
		if i >= len(parts) || parts[i] == "" {
			continue
		}
		part, err := url.QueryUnescape(parts[i])
		if err != nil {
			part = parts[i]
		}
		source += title + part
	}
	return source, is
}

// Place is a source bookmark's note. The bookmark's time is the next pass's From.
type Place struct {
	Last   time.Time     `json:"last"`            // when the last pass began
	Quiet  int           `json:"quiet,omitempty"` // passes without an event since the last event
	Failed []FailedEvent `json:"failed,omitempty"`

	// Types are the types that processes read, with the last pass's time. "*" stands for all types.
	Types map[string]time.Time `json:"types,omitempty"`

	Gap     [2]time.Time `json:"gap,omitzero"`     // the time whose events can't be read; of several gaps, from the first to the last
	Noticed time.Time    `json:"noticed,omitzero"` // when a pass found the latest gap

	// Closed are the events that a person has dealt with, each with its time. No pass hands them over.
	Closed map[string]time.Time `json:"closed,omitempty"`
}

// Reads notes that a pass has read types, and forgets the types that no pass has read for a while.
func (p *Place) Reads(types []string, now time.Time, forgets time.Duration) {
	read := map[string]time.Time{}
	for name, at := range p.Types {
		if now.Sub(at) <= forgets {
			read[name] = at
		}
	}
	for _, name := range types {
		read[name] = now
	}
	p.Types = read
}

// IsRead reports whether a pass has read all types.
func (p *Place) IsRead(types []string) bool {
	return !slices.ContainsFunc(types, func(name string) bool { _, read := p.Types[name]; return !read })
}

// IsAll reports whether no process reads another type than these.
func (p *Place) IsAll(types []string) bool {
	if slices.Contains(types, "*") {
		return true
	}
	for name := range p.Types {
		if !slices.Contains(types, name) {
			return false
		}
	}
	return true
}

// gapStays is how long a place keeps a gap. The gap itself may be as old as the provider lists events.
const gapStays = 30 * 24 * time.Hour

// ForgetGap removes a gap that was found long ago.
func (p *Place) ForgetGap(now time.Time) {
	if now.Sub(p.Noticed) > gapStays {
		p.Gap, p.Noticed = [2]time.Time{}, time.Time{}
	}
}

// AddGap adds a gap that a pass has found. The zero gap is none.
func (p *Place) AddGap(gap [2]time.Time, noticed time.Time) {
	if gap[1].IsZero() {
		return
	}
	if old := p.Gap; !old[1].IsZero() {
		gap[0] = slices.MinFunc([]time.Time{old[0], gap[0]}, time.Time.Compare)
		gap[1] = slices.MaxFunc([]time.Time{old[1], gap[1]}, time.Time.Compare)
	}
	p.Gap = gap
	if noticed.After(p.Noticed) {
		p.Noticed = noticed
	}
}

// GapName is how a person names the gap. A gap that has grown has another name.
func (p *Place) GapName() string {
	if p.Gap[1].IsZero() {
		return ""
	}
	return "gap-" + p.Noticed.UTC().Format(time.RFC3339)
}

// Close drops the failed event, or the gap, of this name. It reports whether there is one.
func (p *Place) Close(name string) bool {
	if name != "" && name == p.GapName() {
		p.Gap, p.Noticed = [2]time.Time{}, time.Time{}
		return true
	}
	at := slices.IndexFunc(p.Failed, func(e FailedEvent) bool { return e.ID == name })
	if at < 0 {
		return false
	}
	if p.Closed == nil {
		p.Closed = map[string]time.Time{}
	}
	p.Closed[name] = p.Failed[at].At
	p.Failed = slices.Delete(p.Failed, at, at+1)
	return true
}

// StillClosed returns the closed events that a pass from a time may read.
func (p *Place) StillClosed(from time.Time) map[string]time.Time {
	still := maps.Clone(p.Closed)
	maps.DeleteFunc(still, func(_ string, at time.Time) bool { return at.Before(from.Truncate(time.Second)) })
	return still
}

// PlaceOf reads a bookmark's note. It returns a new source's place for an unreadable note.
func PlaceOf(b *journal.Bookmark) (p Place) {
	if json.Unmarshal(b.Note, &p) != nil {
		return Place{}
	}
	return p
}

// Note returns the place as a bookmark's note. It cuts the failed-event list to what a note can hold.
func (p Place) Note() []byte {
	for {
		text, err := json.Marshal(p)
		if err == nil && len(text) <= journal.MaxBookmarkNote || len(p.Failed) == 0 {
			return text
		}
		p.Failed = p.Failed[:len(p.Failed)*9/10]
	}
}

// Joined returns the place after a pass, which began at began, if another process or a person has recorded other since.
func (p Place) Joined(began, other Place) Place {
	if other.Last.After(p.Last) {
		p.Last = other.Last
	}
	p.Quiet = min(p.Quiet, other.Quiet)
	if p.Noticed.Equal(began.Noticed) { // the pass found none, and a person may have closed this one
		p.Gap, p.Noticed = other.Gap, other.Noticed
	} else {
		p.AddGap(other.Gap, other.Noticed)
	}
	for name, at := range other.Types {
		if at.After(p.Types[name]) {
			p.Types[name] = at
		}
	}
	for _, e := range other.Failed {
		if !slices.ContainsFunc(p.Failed, func(o FailedEvent) bool { return o.ID == e.ID }) {
			p.Failed = append(p.Failed, e)
		}
	}
	for id, at := range other.Closed {
		if p.Closed == nil {
			p.Closed = map[string]time.Time{}
		}
		p.Closed[id] = at
	}
	p.Failed = slices.DeleteFunc(p.Failed, func(e FailedEvent) bool { _, closed := p.Closed[e.ID]; return closed })
	return p
}
