package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	driver "github.com/go-sql-driver/mysql"

	"github.com/onceward/onceward/internal/address"
	"github.com/onceward/onceward/journal/mysql"
)

// mySQL is a MySQL or MariaDB server with a journal.
type mySQL struct {
	dsn    string
	cfg    *driver.Config
	schema string
}

var _ product = (*mySQL)(nil)

// mySQL reads the URL or the DSN, and the password from the environment.
func (c *command) mySQL() (*mySQL, error) {
	dsn, err := address.DSN(c.journal)
	if err != nil {
		return nil, usage("the address of the journal %w", err)
	}
	cfg, err := driver.ParseDSN(dsn)
	if err != nil { // it may quote the address
		return nil, usage("the address of the journal can't be used: a value in it is wrong")
	}
	if c.pooled {
		return nil, usage("--pooled is for PostgreSQL: a pooler that shares a connection among transactions is not supported before MySQL")
	}
	cfg.Logger = &driver.NopLogger{}
	return &mySQL{dsn, cfg, cmp.Or(c.schema, mysql.DefaultSchema)}, nil
}

func (m *mySQL) openJournal(ctx context.Context, c *command, how access) (inTables, error) {
	return mysql.Open(ctx, m.dsn, mysql.Options{
		Schema: m.schema, Existing: true, ReadOnly: !how.write, Seal: c.ringFor(how), Logger: slog.New(slog.DiscardHandler),
	})
}

func (m *mySQL) connect() (*sql.DB, error) {
	connector, err := driver.NewConnector(m.cfg)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

func (m *mySQL) place() (schema, server, account string) { return m.schema, m.cfg.Addr, m.cfg.User }

func (m *mySQL) in(query string) string {
	micros := "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))"
	return strings.NewReplacer("{{schema}}", "`"+m.schema+"`", "{{now}}", micros+" DIV 1000", "{{alive}}", "s.buried_at IS NULL AND s.expires_at > "+micros).Replace(query)
}

func (m *mySQL) fault(err error) fault {
	var number uint16
	var explained *mysql.Error
	var said *driver.MySQLError
	switch {
	case errors.As(err, &explained):
		number = explained.Number
	case errors.As(err, &said):
		number = said.Number
	default:
		return faultElsewhere
	}
	switch number {
	case 1054, 1146: // no such column or table
		return faultForeign
	case 1049: // no such database
		return faultMissing
	case 1044, 1045, 1142, 1227, 1698: // the password is wrong, or the account lacks a privilege
		return faultRefused
	}
	return faultOther
}

func (m *mySQL) said(err error) string {
	var said *driver.MySQLError
	if errors.As(err, &said) {
		return fmt.Sprintf("%s (error %d)", said.Message, said.Number)
	}
	return ""
}

func (m *mySQL) keptBy() string {
	return "one in MySQL is backed up with its database, by mariadb-backup, XtraBackup or a dump: see docs/mysql.md"
}
