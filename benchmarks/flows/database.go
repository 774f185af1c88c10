package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"

	"modernc.org/sqlite"
)

// databaseName is the file for each engine's flows, within the engine's folder.
const databaseName = "flows.db"

// openDatabase opens the database for an engine that takes one, with as many connections. Every write transaction takes
// the lock at the beginning, as in DBOS: a transaction that reads first would fail at the first write whenever another
// came in between.
func openDatabase(folder string, connections int) (*sql.DB, error) {
	settings := url.Values{"_txlock": {"immediate"}, "_pragma": {
		"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(ON)",
	}}
	db, err := openSQLite(filepath.Join(folder, databaseName), settings)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	if err := db.Ping(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

func openSQLite(path string, settings url.Values) (*sql.DB, error) {
	return sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+settings.Encode())
}

// init refuses every connection of the process that would not survive the loss of power. Onceward's journal writes on
// connections of a driver of its own, which makes the same check.
func init() {
	sqlite.RegisterConnectionHook(func(conn sqlite.ExecQuerierContext, _ string) error {
		const full = int64(2)
		got, err := pragma(conn, "synchronous")
		if err == nil && got != full {
			err = fmt.Errorf("synchronous reads back as %v, not FULL", got)
		}
		return err
	})
}

// pragma reads a setting back.
func pragma(conn driver.QueryerContext, name string) (driver.Value, error) {
	rows, err := conn.QueryContext(context.Background(), "PRAGMA "+name, nil)
	if err != nil {
		return nil, err
	}
	value := make([]driver.Value, 1)
	err = errors.Join(rows.Next(value), rows.Close())
	return value[0], err
}
