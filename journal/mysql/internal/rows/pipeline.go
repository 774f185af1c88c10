package rows

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/onceward/onceward/journal/internal/columns"
	"github.com/onceward/onceward/journal/mysql/internal/myerr"
)

// runner runs statements: a connection, a pool, or an application transaction.
type runner interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// answer reads each row of a queued statement. Nil means that the statement has no rows.
type answer func(columns.Row) error

// pipeline is statements that are sent together, as far as the connection and the server's limit allow.
type pipeline struct {
	d     *Driver
	own   bool // the connection is the journal's own, and takes several statements at once
	texts []statement
}

type statement struct {
	text string
	rows answer
	want int64 // rows to be changed; -1 means any number
}

func (d *Driver) pipeline(own bool) *pipeline { return &pipeline{d: d, own: own} }

// queue adds a statement.
func (p *pipeline) queue(rows answer, text string, args ...any) {
	p.texts = append(p.texts, statement{render(p.d.in(text), p.own, args), rows, -1})
}

// queueFor adds a statement that has to change n rows. Otherwise the pipeline fails with an error of another try.
func (p *pipeline) queueFor(n int, text string, args ...any) {
	p.queue(nil, text, args...)
	p.texts[len(p.texts)-1].want = int64(n)
}

// orElse fails unless the statement before has changed a number of rows: a sum beyond the largest BIGINT is an error in any
// sql_mode (https://dev.mysql.com/doc/refman/8.0/en/out-of-range-and-overflow.html).
const orElse = "SELECT 9223372036854775807 + (ROW_COUNT() <> ?)"

// isSum reads the row of orElse.
func isSum(rows columns.Row) error {
	var sum int64
	return rows.Scan(&sum)
}

// errChanged is the error of a statement in the application's transaction that has changed another number of rows.
var errChanged error = &myerr.Error{Number: myerr.OutOfRange, Reason: "another transaction has changed a row"}

func (p *pipeline) send(ctx context.Context, c runner) error {
	if !p.own {
		return p.sendEach(ctx, c)
	}
	most := int(p.d.packet.Load()) - 1024
	var text strings.Builder
	var answers []answer
	flush := func() error {
		if text.Len() == 0 {
			return nil
		}
		defer text.Reset()
		err := sendText(ctx, c, text.String(), answers)
		answers = answers[:0]
		return err
	}
	add := func(statement string, rows answer) error {
		if len(statement) > most {
			return myerr.TooLarge()
		}
		if text.Len()+len(statement) > most {
			if err := flush(); err != nil {
				return err
			}
		}
		if text.Len() > 0 {
			text.WriteString("; ")
		}
		text.WriteString(statement)
		if rows != nil {
			answers = append(answers, rows)
		}
		return nil
	}
	for _, s := range p.texts {
		if err := add(s.text, s.rows); err != nil {
			return err
		}
		if s.want >= 0 {
			if err := add(render(orElse, true, []any{s.want}), isSum); err != nil {
				return err
			}
		}
	}
	return flush()
}

var errAnswers = errors.New("mysql: the server's answer lacks a result")

// sendText sends statements, and reads the rows of the statements that have some.
func sendText(ctx context.Context, c runner, text string, answers []answer) error {
	rows, err := c.QueryContext(ctx, text)
	if err != nil {
		return err
	}
	defer rows.Close()
	for i, f := range answers {
		if i > 0 && !rows.NextResultSet() {
			if err := rows.Err(); err != nil {
				return err
			}
			return errAnswers
		}
		for rows.Next() {
			if err := f(rows); err != nil {
				return err
			}
		}
		if err := rows.Err(); err != nil {
			return err
		}
	}
	for rows.NextResultSet() {
	}
	return rows.Err()
}

// sendEach sends the statements one by one.
func (p *pipeline) sendEach(ctx context.Context, c runner) error {
	for _, s := range p.texts {
		if len(s.text) > int(p.d.packet.Load())-1024 {
			return myerr.TooLarge()
		}
		if s.rows != nil {
			if err := sendText(ctx, c, s.text, []answer{s.rows}); err != nil {
				return err
			}
			continue
		}
		result, err := c.ExecContext(ctx, s.text)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || s.want >= 0 && n != s.want {
			return cmp.Or(err, errChanged)
		}
	}
	return nil
}
