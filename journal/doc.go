// Package journal has the records for surviving a crash: one for each logical effect, written before the first byte
// leaves.
//
// journal/sqlite, journal/postgres, journal/mysql and journal/memory keep the records. A program opens one of these stores, gives the
// store to a client or a server, and reads by Get and List. Only the client and the client's rules change a record.
package journal
