package leased

import "cmp"

// Place is where the journal lies. A part that the database does not have is "".
type Place struct{ System, Database, Table, Timeline string }

// Or returns p, with the earlier values of the parts that are unknown now.
func (p Place) Or(was Place) Place {
	return Place{cmp.Or(p.System, was.System), cmp.Or(p.Database, was.Database), cmp.Or(p.Table, was.Table), cmp.Or(p.Timeline, was.Timeline)}
}

// Differs reports whether a part has changed. A part that a database can't tell has not.
func Differs(was *string, is string) bool { return was != nil && *was != "" && is != "" && *was != is }
