package main

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/onceward/onceward/internal/shown"
)

// longTransaction is the age of an open transaction that begins to hinder the server's upkeep.
const longTransaction = 10 * time.Minute

// examine checks the server, and the journal's users.
func (d *database) examine(ctx context.Context, x *examination) {
	err := d.look(ctx, func(tx *sql.Tx) error {
		for _, examine := range append(d.checks(), d.examineTime, d.examineDeployment, d.examineHolders) {
			if err := examine(ctx, tx, x); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		x.failed("server", err)
	}
}

// examineTime compares the clocks on this machine, in the database and in the journal.
func (d *database) examineTime(ctx context.Context, tx *sql.Tx, x *examination) error {
	sent := time.Now()
	var nowAt, lastAt int64
	if err := tx.QueryRowContext(ctx, d.in("SELECT {{now}}, coalesce(max(last_at), 0) FROM {{schema}}.lanes")).Scan(&nowAt, &lastAt); err != nil {
		return err
	}
	took := time.Since(sent)
	now := time.UnixMilli(nowAt)
	behind := max(0, time.UnixMilli(lastAt).Sub(now))
	x.judge(behind <= time.Minute, "the database's is not behind the journal", checked{"clock", levelFail,
		fmt.Sprintf("the database's clock stands %s behind the journal: one of the two is wrong, and nothing is resent meanwhile", shown.Duration(behind)),
		"synchronise the clock; if it was ahead before, see ResetClock", "clock"})
	apart := now.Sub(sent.Add(took / 2)).Abs()
	x.judge(apart <= time.Minute, "this machine's clock and the database's agree", checked{"clock-sync", levelWarn,
		fmt.Sprintf("this machine's clock and the database's are %s apart", shown.Duration(apart)), "run chrony or systemd-timesyncd on both; the journal goes by the database's", "clock"})
	return nil
}

func (d *database) examineDeployment(ctx context.Context, tx *sql.Tx, x *examination) error {
	var deployment sql.NullString
	if err := tx.QueryRowContext(ctx, d.in("SELECT deployment FROM {{schema}}.journal")).Scan(&deployment); err != nil {
		return err
	}
	x.judge(deployment.Valid, deployment.String,
		checked{"deployment", levelWarn, "no application has opened it yet", "is it the database, and the schema, that the application uses?", "journal"})
	return nil
}

// examineHolders reports live sessions, and what dead ones hold.
func (d *database) examineHolders(ctx context.Context, tx *sql.Tx, x *examination) error {
	var alive, silent, held int
	err := tx.QueryRowContext(ctx, d.in(`SELECT (SELECT count(*) FROM {{schema}}.sessions s WHERE s.id <> s.process AND {{alive}}),
		(SELECT count(*) FROM {{schema}}.sessions s WHERE s.id <> s.process AND s.buried_at IS NULL AND NOT ({{alive}})),
		(SELECT count(*) FROM {{schema}}.operations o WHERE o.state = 2 AND o.holder IS NOT NULL AND NOT EXISTS
			(SELECT 1 FROM {{schema}}.sessions s WHERE s.id = o.holder AND {{alive}}))`)).Scan(&alive, &silent, &held)
	if err != nil {
		return err
	}
	x.judge(held == 0, fmt.Sprintf("%d alive, %d that have not been heard of hold nothing", alive, silent), checked{"sessions", levelWarn,
		fmt.Sprintf("%d alive; %d operations are held by none of them", alive, held), "another process takes them over within a minute; is one running, with Run or Resume?", "in-flight"})
	return nil
}

// encrypted adds the check of this command's connection. proven means that a certificate has shown which server answers, and
// near means that the connection stays on this machine.
func (x *examination) encrypted(is, proven, near bool, toDo string) {
	says, wrong := "the connection is encrypted", "the connection is not encrypted, or ends at a pooler: others on the network can read bodies"
	if is && !proven {
		wrong = "the connection is encrypted, and no certificate is checked: another program on the network can answer for the server"
	}
	if !is {
		says = "the connection stays on this machine"
	}
	x.judge(is && proven || near, says, checked{"tls", levelWarn, wrong, toDo, "journal"})
}

// connections adds the check of how many of the server's connections are taken.
func (x *examination) connections(used, most int) {
	x.judge(used*5 <= most*4, fmt.Sprintf("%d of %d are taken", used, most), checked{"connections", levelWarn,
		fmt.Sprintf("%d of %d connections are taken: a process that can't connect loses its sessions", used, most), "raise max_connections, or find the program that holds so many", "journal"})
}

// transactions adds the check of the oldest open transaction.
func (x *examination) transactions(oldest time.Duration, toDo string) {
	x.judge(oldest <= longTransaction, "none is open for long", checked{"transactions", levelWarn,
		fmt.Sprintf("a transaction in this database has been open for %s: nothing that died since is cleared up", shown.Duration(oldest)), toDo, "journal"})
}
