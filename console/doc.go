// Package console is a page for people who look after a journal: what is open and why, how long it
// may still be resent, what was seen of it, and, where that is switched on, their word on it. It is an
// http.Handler, for an admin mux of one's own, under any prefix:
//
//	page, err := console.New(console.Options{Journal: j, Client: client, Authorize: authorize, Actions: []console.Action{console.Resolve}})
//	mux.Handle("/admin/onceward/", http.StripPrefix("/admin/onceward", page))
//
// The example has a login.
//
// It is closed by default: Authorize is asked about every request, first of all, and there is no
// console without it. It only reads, unless Options.Actions switches more on; bodies are shown as
// their shape, and revealing them is an action of its own, which is logged. It sends nothing, sets no
// cookie, loads nothing from elsewhere, runs no inline script, and works without any.
package console
