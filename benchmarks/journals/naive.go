package main

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"time"
)

// naiveStore is SQLite as one would use it at first: a transaction for every write, WAL, synchronous=FULL, one
// connection.
type naiveStore struct {
	db              *sql.DB
	begin, complete *sql.Stmt
}

func openNaive(folder string) (store, error) {
	dsn := "file:" + filepath.Join(folder, "naive.db") + "?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)"
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	s := &naiveStore{db: db}
	_, err = db.Exec(`CREATE TABLE IF NOT EXISTS operations (key TEXT PRIMARY KEY, state INTEGER NOT NULL, began_at INTEGER NOT NULL,
		settled_at INTEGER, request BLOB, request_body BLOB, answer BLOB, answer_body BLOB)`)
	if err == nil {
		s.begin, err = db.Prepare("INSERT INTO operations (key, state, began_at, request, request_body) VALUES (?, 2, ?, ?, ?)")
	}
	if err == nil {
		s.complete, err = db.Prepare("UPDATE operations SET state = 3, settled_at = ?, answer = ?, answer_body = ? WHERE key = ?")
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

func (s *naiveStore) operation(ctx context.Context, key string) error {
	if _, err := s.begin.ExecContext(ctx, key, time.Now().UnixMilli(), intentHead, intentBody); err != nil {
		return err
	}
	_, err := s.complete.ExecContext(ctx, time.Now().UnixMilli(), answerHead, answerBody, key)
	return err
}

func (s *naiveStore) has(ctx context.Context, key string) (there bool, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT count(*) FROM operations WHERE key = ? AND length(answer_body) = ?", key, len(answerBody)).Scan(&there)
	return there, err
}

func (s *naiveStore) close() error { return s.db.Close() }
