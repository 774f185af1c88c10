package postgres_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/postgres"
)

// If TLS fails with a server that is there, the error does not call the server missing. It names the setting to change.
func TestTLSFailureIsNoMissingServer(t *testing.T) {
	t.Parallel()
	made := httptest.NewUnstartedServer(nil)
	made.StartTLS() // for its certificate
	t.Cleanup(made.Close)
	root := filepath.Join(t.TempDir(), "root.pem")
	require.NoError(t, os.WriteFile(root, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made.Certificate().Raw}), 0o600))
	clients := x509.NewCertPool()
	clients.AddCert(made.Certificate())
	wants := &tls.Config{Certificates: made.TLS.Certificates, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
	for name, row := range map[string]struct {
		host, settings string
		server         func(net.Conn) // after it said that it speaks TLS
		says           string
	}{
		"no known signature": {"127.0.0.1", "sslmode=verify-full", handshake(&tls.Config{Certificates: made.TLS.Certificates}), "sslrootcert"},
		"another's":          {"localhost", "sslmode=verify-full&sslrootcert=" + url.QueryEscape(root), handshake(&tls.Config{Certificates: made.TLS.Certificates}), "is another host's"},
		"no client's":        {"127.0.0.1", "sslmode=verify-full&sslrootcert=" + url.QueryEscape(root), handshake(wants), "sslcert"},
		"something else":     {"127.0.0.1", "sslmode=require", func(c net.Conn) { _, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) }, "TLS with the server failed"},
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			t.Cleanup(func() { _ = listener.Close() })
			go func() {
				for {
					c, err := listener.Accept()
					if err != nil {
						return
					}
					go func() {
						defer c.Close()
						if _, err := io.ReadFull(c, make([]byte, 8)); err == nil { // an SSLRequest
							_, _ = c.Write([]byte("S"))
							row.server(c)
						}
					}()
				}
			}()
			_, port, err := net.SplitHostPort(listener.Addr().String())
			require.NoError(t, err)
			_, err = postgres.Open(t.Context(), "postgres://shop:hunter2@"+net.JoinHostPort(row.host, port)+"/shop?"+row.settings, postgres.Options{Deployment: "test"})
			require.ErrorContains(t, err, row.says)
			assert.NotContains(t, err.Error(), "no connection")
			assert.NotContains(t, err.Error(), "hunter2")
			var said *postgres.Error
			require.ErrorAs(t, err, &said)
			assert.Empty(t, said.Code)
		})
	}
}

func handshake(cfg *tls.Config) func(net.Conn) {
	return func(c net.Conn) {
		secured := tls.Server(c, cfg)
		if secured.Handshake() == nil {
			_, _ = io.Copy(io.Discard, secured)
		}
	}
}
