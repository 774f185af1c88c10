// Package journal has the records that must survive a crash: one for each logical effect, written before its first byte
// leaves.
//
// journal/sqlite, journal/postgres and journal/memory keep them. A program opens one of these, gives it to a client or a
// server, and reads it by Get and List. Only the client and its rules change a record.
package journal
