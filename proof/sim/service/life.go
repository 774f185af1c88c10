package service

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers/providertest"
)

// live lives the life to the end, and judges the life.
func (l *life) live() {
	if err := l.tables(); err != nil {
		l.fault("the tables: %v", err)
		return
	}
	var all sync.WaitGroup
	l.services = make([]*process, 1+l.dice("services").IntN(2))
	for i := range l.services {
		all.Go(func() { l.keepsServing(i) })
	}
	for of := range l.clients {
		l.clients[of] = make([]*payer, 1+l.dice("clients", of).IntN(2))
		for i := range l.clients[of] {
			all.Go(func() { l.keepsPaying(of, i) })
		}
	}
	for _, name := range l.names() {
		for i := range 1 + l.dice("callers", name).IntN(4) {
			all.Go(func() { l.wants(name, i) })
		}
	}
	all.Wait()
	l.heal()
	l.judge()
}

// names are the names of what callers want.
func (l *life) names() (all []string) {
	for i := range l.orders {
		all = append(all, fmt.Sprintf("order-%d", i), fmt.Sprintf("refund-%d", i))
	}
	return all
}

// keepsServing starts and ends the service's processes, one after the other.
func (l *life) keepsServing(i int) {
	random := l.dice("fleet", i)
	for run := 0; time.Since(l.began) < l.length; run++ {
		p := l.opens(fmt.Sprintf("service %d.%d", i, run), false)
		l.mu.Lock()
		l.services[i] = p
		l.mu.Unlock()
		timer := time.NewTimer(min(10*time.Second+within(random, 10*time.Minute), l.length-time.Since(l.began)))
		select {
		case <-timer.C:
		case <-p.dead:
		}
		timer.Stop()
		l.mu.Lock()
		l.services[i] = nil
		l.mu.Unlock()
		p.ends(random.IntN(2) == 0)
		time.Sleep(within(random, time.Minute))
	}
}

// keepsPaying does so for a client.
func (l *life) keepsPaying(of, i int) {
	random := l.dice("payers", of, i)
	for run := 0; time.Since(l.began) < l.length; run++ {
		p := l.pays(fmt.Sprintf("client %d.%d.%d", of, i, run), of)
		l.mu.Lock()
		l.clients[of][i] = p
		l.mu.Unlock()
		time.Sleep(max(0, min(10*time.Second+within(random, 20*time.Minute), l.length-time.Since(l.began))))
		l.mu.Lock()
		l.clients[of][i] = nil
		l.mu.Unlock()
		p.ends(random.IntN(2) == 0)
		time.Sleep(within(random, time.Minute))
	}
}

// wants makes a caller ask for something until an answer comes, or the caller has asked often enough. One in eight
// wants something else under the name.
func (l *life) wants(name string, i int) {
	random := l.dice("wants", name, i)
	of := wish{name, 100}
	if random.IntN(8) == 0 {
		of.Cents = 200
	}
	time.Sleep(within(random, l.length/2))
	for range 1 + random.IntN(5) {
		l.mu.Lock()
		p := anyOf(l.clients[random.IntN(2)], random)
		l.mu.Unlock()
		if p != nil {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second+within(random, 2*time.Minute))
			p.asks(ctx, of)
			cancel()
		}
		time.Sleep(within(random, l.length/8))
	}
}

// heal ends the life. All is well from here on, and every caller asks until it is answered.
func (l *life) heal() {
	l.mu.Lock()
	l.well = true
	l.mu.Unlock()
	l.bank.Seed(l.seed, providertest.Mix{})
	time.Sleep(15 * time.Minute) // what was late has arrived
	service := l.opens("service at the end", true)
	l.mu.Lock()
	l.services = []*process{service}
	l.mu.Unlock()
	for of := range l.ledgers {
		p := l.pays(fmt.Sprintf("client %d at the end", of), of)
		for _, name := range l.names() {
			for n := 0; !p.asks(context.Background(), wish{name, 100}); n++ {
				if n == 20 {
					if op, err := l.ledgers[of].Get(context.Background(), onceward.Ref{ID: name}); err != nil || !strings.Contains(op.Cause, reused) {
						l.fault("%s: its caller is not answered", name)
					}
					break
				}
				time.Sleep(time.Minute)
			}
		}
		time.Sleep(30 * time.Minute) // for what others have asked for
		p.ends(false)
	}
	time.Sleep(time.Hour)
	service.ends(false)
}

// judge compares the rows, the receipts, the bank's ledger, the clients' records and the callers' answers.
func (l *life) judge() {
	ctx := context.Background()
	recorded := map[string]given{}
	texts := map[string]string{}
	for r, err := range l.journal.ListReceipts(ctx, journal.ReceiptFilter{}) {
		if err == nil {
			r, err = l.journal.GetReceipt(ctx, r.ReceiptKey)
		}
		var answer given
		if err == nil && r.State == journal.ReceiptCompleted {
			err = json.Unmarshal(r.Answer.Body, &answer)
		}
		switch {
		case err != nil || r.State != journal.ReceiptCompleted:
			l.fault("a receipt of %s is %v: %v", r.Place, r.State, err)
		case texts[answer.Name] != "":
			l.fault("%s has two receipts", answer.Name)
		}
		recorded[answer.Name], texts[answer.Name] = answer, string(r.Answer.Body)
	}
	rows := map[string][]wish{}
	charged := map[string]bool{} // orders that were not declined
	err := l.inDatabase(func(tx *sql.Tx) error {
		all, err := tx.Query("SELECT name, cents, declined FROM orders")
		if err != nil {
			return err
		}
		defer all.Close()
		for all.Next() {
			var of wish
			var declined bool
			if err := all.Scan(&of.Name, &of.Cents, &declined); err != nil {
				return err
			}
			rows[of.Name] = append(rows[of.Name], of)
			charged[of.Name] = !declined
		}
		return all.Err()
	})
	if err != nil {
		l.fault("the rows: %v", err)
	}
	effects := map[string][]wish{}
	for _, e := range l.bank.Effects() {
		var of wish
		if err := json.Unmarshal(e.Body, &of); err != nil {
			l.fault("the bank's ledger: %v", err)
		}
		effects[of.Name] = append(effects[of.Name], of)
	}
	for _, name := range l.names() {
		answer, there := recorded[name]
		if !there {
			l.fault("%s has no receipt", name)
			continue
		}
		order := answer.path() == "/orders"
		switch {
		case order && !slices.Equal(rows[name], []wish{answer.wish}):
			l.fault("%s has the receipt %v, and the rows %v", name, answer, rows[name])
		case order && !charged[name] && len(effects[name]) > 0:
			l.fault("%s was declined, and is charged", name)
		case (!order || charged[name]) && !slices.Equal(effects[name], []wish{answer.wish}):
			l.fault("%s has the receipt %v, and the effects %v", name, answer, effects[name])
		}
		for text := range l.heard[name] {
			if text != texts[name] {
				l.fault("%s: its caller was told %s, and recorded is %s", name, text, texts[name])
			}
		}
		l.judgeClients(name, answer, !order || charged[name])
	}
	for op, err := range l.journal.List(ctx, journal.Filter{}) {
		if err != nil || op.State != journal.StateCompleted {
			l.fault("the service's %s below %s is %v: %v, %s", op.ID, op.Parent, op.State, err, op.Cause)
		}
	}
	if found, err := l.journal.Verify(ctx); err != nil || len(found) > 0 {
		l.fault("the file: %v, %v", found, err)
	}
}

// reused is in the cause of an operation whose key the handler found used, by its own call, for another request.
const reused = "status 422"

// judgeClients compares the clients' records of something with the answer that the service has recorded.
func (l *life) judgeClients(name string, answer given, paid bool) {
	for of, ledger := range l.ledgers {
		op, err := ledger.Get(context.Background(), onceward.Ref{ID: name})
		if err != nil {
			continue // it has not asked for it
		}
		l.visit("a client's operation is " + op.State.String())
		var says given
		var asked wish
		_ = json.Unmarshal(op.Request.Body, &asked)
		if op.Answer != nil && op.State == journal.StateCompleted {
			err = json.Unmarshal(op.Answer.Body, &says)
		}
		switch {
		case op.State == journal.StateCompleted && op.Answer.Status == http.StatusUnprocessableEntity && asked != answer.wish:
			// Its only attempt was refused: the service's own call belongs to another request.
		case op.State == journal.StateCompleted && (err != nil || says != answer || (op.Answer.Status == 201) != paid):
			l.fault("client %d has %s as %v %v, and recorded is %v", of, name, op.State, says, answer)
		case op.State == journal.StateCancelled && !strings.Contains(op.Cause, "refused") && !strings.Contains(op.Cause, "another request"):
			l.fault("client %d has %s as cancelled: %s", of, name, op.Cause)
		case op.State == journal.StateUnknown && asked != (wish{}) && asked != answer.wish && strings.Contains(op.Cause, "another request"):
			// The other client was first with another request, while this one had lost the answer to its own.
		case op.State == journal.StatePending && asked != (wish{}) && asked != answer.wish && strings.Contains(op.Cause, reused):
			// The other client asked before any answer was recorded: the service's own call belongs to the other's
			// request. An earlier attempt of this client may have run, so the client asks until the key is forgotten.
		case !op.State.Settled():
			l.fault("client %d has %s as %v: %s", of, name, op.State, op.Cause)
		}
	}
}
