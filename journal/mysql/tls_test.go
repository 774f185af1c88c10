package mysql_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/mysql"
	"github.com/onceward/onceward/journal/mysql/mysqltest"
)

// certified returns settings of a server with a certificate for 127.0.0.1, and the pool with the certificate.
func certified(t *testing.T) (settings []mysqltest.Option, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	is := x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	certificate, err := x509.CreateCertificate(rand.Reader, &is, &is, &key.PublicKey, key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	pool = x509.NewCertPool()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o711)) // the server has an account of its own
	for name, block := range map[string]pem.Block{"ssl-cert": {Type: "CERTIFICATE", Bytes: certificate}, "ssl-key": {Type: "PRIVATE KEY", Bytes: private}} {
		path, text := filepath.Join(dir, name), pem.EncodeToMemory(&block)
		require.NoError(t, os.WriteFile(path, text, 0o644))
		settings = append(settings, mysqltest.Setting(name, path))
		pool.AppendCertsFromPEM(text)
	}
	return settings, pool
}

// encrypts shows which servers a DSN with encryption leads to.
func encrypts(t *testing.T, server *mysqltest.Server, opts mysql.Options, pool *x509.CertPool) {
	for name, cfg := range map[string]*tls.Config{"ours": {RootCAs: pool}, "another-host": {RootCAs: pool, ServerName: "db.example.com"}} {
		require.NoError(t, driver.RegisterTLSConfig(name, cfg))
		defer driver.DeregisterTLSConfig(name)
	}
	plain := mysqltest.Shared(t)
	for _, row := range []struct {
		name, setting, says string
		of                  *mysqltest.Server
	}{
		{"the certificate fits", "ours", "", server},
		{"an authority that is not trusted", "true", "certificate signed by unknown authority", server},
		{"a certificate of another host", "another-host", "wanted to match db.example.com", server},
		{"a server without TLS", "true", "TLS", plain},
		{"no encryption if there is none", "preferred", "", plain},
		{"any certificate", "skip-verify", "", server},
	} {
		t.Run(row.name, func(t *testing.T) {
			cfg, err := driver.ParseDSN(row.of.DSN())
			require.NoError(t, err)
			cfg.TLSConfig = row.setting
			opts := opts
			opts.Unsafe = row.of == plain
			if row.says != "" {
				cfg.Passwd = "hidden-one"
			}
			for do, err := range map[string]error{
				"Migrate": mysql.Migrate(t.Context(), cfg.FormatDSN(), opts.Schema),
				"Open":    opens(t, cfg.FormatDSN(), opts),
			} {
				if row.says == "" {
					require.NoError(t, err, do)
					continue
				}
				require.ErrorContains(t, err, row.says, do)
				assert.NotContains(t, err.Error(), "hidden-one", do)
				var explained *mysql.Error
				require.ErrorAs(t, err, &explained, do)
			}
		})
	}
}

// opens opens a journal, and closes it.
func opens(t *testing.T, dsn string, opts mysql.Options) error {
	opts.Migrate = false
	j, err := mysql.Open(t.Context(), dsn, opts)
	if err == nil {
		err = j.Close()
	}
	return err
}
