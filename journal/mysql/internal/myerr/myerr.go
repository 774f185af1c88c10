// Package myerr says what an error of a MySQL or MariaDB server, or of the connection to it, means.
//
// The package knows error numbers, and the errors of the driver and of the network. It must not know the journal, its tables,
// or the statement that failed.
package myerr

import (
	"context"
	"crypto/tls"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// Error is the server's error without the server's own words, which may hold values or addresses. Error wraps nothing.
type Error struct {
	Number uint16 // the server's error number; 0 if the connection failed
	Reason string // in Onceward's words
}

func (e *Error) Error() string {
	if e.Number == 0 {
		return "mysql: " + e.Reason
	}
	return fmt.Sprintf("mysql: %s (error %d)", e.Reason, e.Number)
}

// Fate is what a failed statement means.
type Fate uint8

const (
	Poisoned Fate = iota // the statement alone is to blame
	Failed               // nothing can succeed
	Again                // another try may succeed at once
	Locked               // another transaction holds a row
	Outage               // the server is going, or refuses writes
)

// Numbers of errors that callers ask for.
const (
	Duplicate      = 1062
	LockWait       = 1205
	Deadlock       = 1213
	ReadOnly       = 1290
	OutOfRange     = 1690 // of a statement that must have changed a number of rows
	NoSavepoint    = 1305
	PacketTooLarge = 1153
	NoSuchTable    = 1146
)

const loginRefused = "the server does not let the account in: check the name, the password, and whether the account needs TLS"

// fates has the meaning of error numbers. Other numbers concern their statement alone.
var fates = map[uint16]struct {
	fate   Fate
	reason string
}{
	Duplicate:  {Again, "the row exists already"},
	Deadlock:   {Again, "deadlock: the server rolled the transaction back"},
	OutOfRange: {Again, "another transaction has changed a row"},
	1020:       {Again, "another transaction has changed a row since the transaction's snapshot"},
	LockWait:   {Locked, "another transaction holds a row for too long"},
	3572:       {Locked, "another transaction holds a row"},
	1317:       {Locked, "the statement was interrupted"},
	1969:       {Locked, "the statement took too long"},
	3024:       {Locked, "the statement took too long"},

	ReadOnly: {Outage, "the server is read-only: connect to the primary"},
	1040:     {Outage, "the server has too many connections: raise max_connections"},
	1053:     {Outage, "the server is shutting down"},
	1152:     {Outage, "the connection was aborted"},
	1158:     {Outage, "the connection failed"}, 1159: {Outage, "the connection failed"}, 1160: {Outage, "the connection failed"}, 1161: {Outage, "the connection failed"},
	1203: {Outage, "the account has too many connections: raise max_user_connections"},
	1792: {Outage, "the transaction is read-only: connect to the primary"},
	1836: {Outage, "the server is read-only: connect to the primary"},
	1927: {Outage, "an administrator ended the connection"},
	4031: {Outage, "the connection was idle for too long"},

	1021: {Failed, "the server's disk is full: free space"},
	1037: {Failed, "the server is out of memory"}, 1038: {Failed, "the server is out of memory"}, 1041: {Failed, "the server is out of memory"},
	1044: {Failed, "the account may not use the database: GRANT the privileges that docs/mysql.md lists"},
	1045: {Failed, loginRefused}, 1698: {Failed, loginRefused},
	1049:        {Failed, "there is no such database: run mysql.Migrate, or see Options.Schema"},
	1054:        {Failed, "a column is missing: run mysql.Migrate"},
	1114:        {Failed, "a table is full: free space on the server's disk"},
	1142:        {Failed, "the account lacks a privilege: GRANT the privileges that docs/mysql.md lists"},
	NoSuchTable: {Failed, "a table is missing: run mysql.Migrate, or see Options.Schema"},
	1227:        {Failed, "the account lacks a privilege: GRANT the privileges that docs/mysql.md lists"},
	1665:        {Failed, "the server logs statements (binlog_format=STATEMENT): set binlog_format to ROW"},

	PacketTooLarge: {Poisoned, "the row is larger than the server's max_allowed_packet: raise max_allowed_packet, or send a smaller body"},
	1366:           {Poisoned, "a value has the wrong form"},
	1264:           {Poisoned, "a number is out of range"},
	1406:           {Poisoned, "a value is too long"},
	1644:           {Poisoned, "a trigger refused it"},
}

// NoTable is the error of a journal that lacks a table.
func NoTable(name string) error {
	return &Error{NoSuchTable, "the journal lacks the table " + name + ": run mysql.Migrate again if it was interrupted, otherwise restore a backup, or see Options.Schema"}
}

// IsReadOnly is the error of a server that was the primary, and still serves the connections of that time.
func IsReadOnly() error { return &Error{ReadOnly, fates[ReadOnly].reason} }

// TooLarge is the error of a row larger than the server's max_allowed_packet.
func TooLarge() error { return &Error{PacketTooLarge, fates[PacketTooLarge].reason} }

// Number returns the number of a server's error, explained or not, or 0.
func Number(err error) uint16 {
	var own *Error
	var server *mysql.MySQLError
	switch {
	case errors.As(err, &own):
		return own.Number
	case errors.As(err, &server):
		return server.Number
	}
	return 0
}

// FateOf returns what a failed statement means. An error that is not the server's is an Outage.
func FateOf(err error) Fate {
	if n := Number(err); n != 0 {
		return fates[n].fate
	}
	return Outage
}

// IsConnections reports whether an error is of a connection.
func IsConnections(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, mysql.ErrMalformPkt) ||
		errors.Is(err, mysql.ErrPktSync) || errors.Is(err, mysql.ErrPktSyncMul) || errors.Is(err, mysql.ErrBusyBuffer) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, sql.ErrConnDone)
}

// IsStatements reports whether the server rejected a statement, and the connection goes on.
func IsStatements(err error) bool {
	n := Number(err)
	return n != 0 && fates[n].fate != Outage
}

// Explain returns an *Error for an error of the server or of its connection. Any other error stays the same.
func Explain(err error) error {
	var own *Error
	var server *mysql.MySQLError
	var certificate *tls.CertificateVerificationError
	switch {
	case err == nil, errors.As(err, &own), errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &server):
		reason := fates[server.Number].reason
		if reason == "" {
			reason = "the server refused a statement"
		}
		return &Error{server.Number, reason}
	case err == context.DeadlineExceeded:
		return err
	case errors.As(err, &certificate):
		return &Error{0, certificate.Err.Error() + ": the DSN has to name the certificate's host, and this machine has to trust the certificate's authority"}
	case errors.Is(err, mysql.ErrNoTLS):
		return &Error{0, "the server has no TLS, which the DSN asks for: set up TLS on the server"}
	case errors.Is(err, mysql.ErrPktTooLarge):
		return TooLarge()
	case IsConnections(err) && !strings.HasPrefix(err.Error(), "mysql: "):
		return &Error{0, "the connection to the server failed: check that the server runs at the DSN's address"}
	}
	return err
}
