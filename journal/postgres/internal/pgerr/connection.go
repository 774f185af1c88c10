package pgerr

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// connectionReason returns why a connection failed, in Onceward's words, for an error that is not the server's.
func connectionReason(err error) string {
	var connect *pgconn.ConnectError
	var network net.Error
	var scan pgx.ScanArgError
	switch {
	case errors.As(err, &scan):
		return "the server's answer is in another form than requested: behind a pooler (Options.Pooled), see bytea_output and DateStyle"
	case errors.As(err, &network) && network.Timeout():
		return "the server did not answer in time"
	case errors.As(err, &connect) && strings.Contains(err.Error(), "read only connection"): // pgconn's words, without a type
		return "the server, or this role on it, is read-only: a standby, or default_transaction_read_only; a connection to the primary is needed"
	case errors.As(err, &connect) && strings.Contains(err.Error(), "server refused TLS connection"):
		return "the server does not speak TLS: see sslmode of the connection string"
	case tlsReason(err) != "":
		return tlsReason(err)
	case errors.As(err, &connect):
		return "no connection to the server: is it up, and are its host and port what the connection string says?"
	}
	return "the connection failed"
}

// IsConnections reports whether an error comes from a connection, or from the connection's driver.
func IsConnections(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.As(err, new(*pgconn.ConnectError)) || errors.As(err, new(pgx.ScanArgError)) || errors.As(err, new(pgx.ErrPreprocessingBatch)) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || pgconn.SafeToRetry(err) || pgconn.Timeout(err) || tlsReason(err) != "" ||
		slices.Contains([]string{"conn closed", "conn busy", "closed pool"}, err.Error()) // words of types that are not exported
}

// tlsReason returns why TLS with a reached server failed, or "" for other errors.
func tlsReason(err error) string {
	var unverified *tls.CertificateVerificationError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var header tls.RecordHeaderError
	var op *net.OpError
	switch {
	case errors.As(err, &name):
		return "the server's TLS certificate is another host's: name the host as the certificate does, or get it one of its own"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the server's TLS certificate is not valid at this time: renew it, or set this machine's clock right"
	case errors.As(err, &unverified):
		return "the server's TLS certificate is signed by an unknown authority: name the authority's file by sslrootcert in the connection string"
	case errors.As(err, &header), errors.As(err, &op) && op.Op == "remote error": // crypto/tls's word for an alert
		return "TLS with the server failed: see sslmode of the connection string, and sslcert and sslkey if the server wants a client's certificate"
	}
	return ""
}
