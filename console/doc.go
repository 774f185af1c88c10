// Package console is a web page for a journal's operators. It shows which operations have no outcome and why, how
// long they may still be resent, and the evidence. With Options.Actions it also records decisions. It is an
// http.Handler for your admin mux, under any prefix:
//
//	page, err := console.New(console.Options{Journal: j, Client: client, Authorize: authorize, Actions: []console.Action{console.Resolve}})
//	mux.Handle("/admin/onceward/", http.StripPrefix("/admin/onceward", page))
//
// The example has a login.
//
// It is closed by default: it calls Authorize first, for every request, and New requires it. It only reads, unless
// Options.Actions enables more. It shows bodies as their shape. Revealing them is a separate, logged action. It sends
// nothing, sets no cookie, loads nothing from other hosts, runs no inline script, and works without scripts.
package console
