package mysql_test

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	driver "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/mysql"
	"github.com/onceward/onceward/journal/mysql/mysqltest"
)

// client runs one of MariaDB's client programs against a server.
func client(t *testing.T, server *mysqltest.Server, in []byte, program string, args ...string) []byte {
	t.Helper()
	cfg, err := driver.ParseDSN(server.DSN())
	require.NoError(t, err)
	host, port, _ := strings.Cut(cfg.Addr, ":")
	cmd := exec.Command(program, append([]string{"--no-defaults", "--host=" + host, "--port=" + port, "--user=" + cfg.User}, args...)...)
	cmd.Env, cmd.Stdin = append(os.Environ(), "MYSQL_PWD="+cfg.Passwd), bytes.NewReader(in)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	return out
}

// closed opens a journal, begins operations, and closes the journal.
func closed(t *testing.T, server *mysqltest.Server, opts mysql.Options, ids ...string) {
	t.Helper()
	j := open(t, server, opts)
	for _, id := range ids {
		begun(t, j, id)
	}
	require.NoError(t, j.Close())
}

// A dump is restored, or a copy is started, while no process lives. Only the witness notices, or the administrator's statement.
func TestRestoredDump(t *testing.T) {
	if os.Getenv("ONCEWARD_MYSQL_DSN") != "" {
		t.Skip("the program that dumps is MariaDB's")
	}
	server := mysqltest.Shared(t)
	opts := options(t, server)
	closed(t, server, opts, "kept\x00\xff'\\")
	dump := client(t, server, nil, "mariadb-dump", "--databases", opts.Schema)
	seen := opts
	seen.Witness = new(witness)
	for name, row := range map[string]struct {
		opts    mysql.Options
		marks   string
		noticed bool
	}{
		"without a witness": {opts, "", false},
		"with a witness":    {seen, "", true},
		"marked":            {opts, "UPDATE " + opts.Schema + ".journal SET restored = 'restored from a dump'", true},
	} {
		t.Run(name, func(t *testing.T) {
			closed(t, server, row.opts, "lost")
			server.Exec(t, "DROP DATABASE "+opts.Schema)
			client(t, server, dump, "mariadb")
			if row.marks != "" {
				server.Exec(t, row.marks)
			}
			j := open(t, server, row.opts)
			_, err := j.Join(t.Context())
			if row.noticed {
				require.ErrorIs(t, err, journal.ErrRestored)
				require.NoError(t, j.Adopt(t.Context()))
				_, err = j.Join(t.Context())
			}
			require.NoError(t, err)
			got, err := j.Get(t.Context(), journal.Ref{ID: "kept\x00\xff'\\"})
			require.NoError(t, err)
			assert.Equal(t, got.ID, string(got.Request.Body))
			_, err = j.Get(t.Context(), journal.Ref{ID: "lost"})
			require.ErrorIs(t, err, journal.ErrNotFound)
			violations, err := j.Verify(t.Context())
			require.NoError(t, err)
			assert.Empty(t, violations)
		})
	}
}

// A copy of the server is at work beside the original. Only the witness notices, at the one that is opened later. An earlier
// state of the server's files under a live process is noticed.
func TestCopiedServer(t *testing.T) {
	t.Parallel()
	server := mysqltest.Start(t)
	opts := options(t, server)
	seen := opts
	seen.Witness = new(witness)
	closed(t, server, seen, "a")
	server.Stop(t)
	restore := server.Save(t)
	copied := mysqltest.Start(t, mysqltest.CopyOf(server))
	server.Run(t)
	for _, row := range []struct {
		name    string
		opts    mysql.Options
		noticed bool
	}{{"without a witness", opts, false}, {"with a witness", seen, true}} {
		t.Run(row.name, func(t *testing.T) {
			original := open(t, server, row.opts)
			begun(t, original, row.name)
			other := open(t, copied, row.opts)
			_, err := other.Join(t.Context())
			if row.noticed {
				require.ErrorIs(t, err, journal.ErrRestored)
			} else {
				require.NoError(t, err)
			}
			_, err = original.Join(t.Context())
			require.NoError(t, err)
		})
	}
	patient := opts
	mysql.Patient(&patient)
	live := open(t, server, patient)
	begun(t, live, "acknowledged")
	server.Stop(t)
	restore()
	server.Run(t)
	_, err := live.Join(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored)
	_, err = open(t, server, opts).Join(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored, "it is written down for others")
	require.NoError(t, live.Adopt(t.Context()))
	_, err = live.Join(t.Context())
	require.NoError(t, err)
}
