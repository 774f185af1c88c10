//go:build unix

package flow_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/server"
)

type (
	point = oncetest.Point
	doom  = oncetest.Doom
)

func TestMain(m *testing.M) { oncetest.Main(m, (*flowPlan).carryOut) }

// flowPlan lists the flows that one process runs, and the point at which it dies.
type flowPlan struct {
	Journal        string // the file
	Doom           doom
	Ledger, Stripe string // the providers' URLs in a box: quoted IETF, and Stripe

	Enqueues string // a flow that it first enqueues, in an order's transaction; "": none

	Resume  bool
	Asks    []string // flows that it then asks for, all at once
	Inbound bool     // … by requests to a handler, each with the flow's name as its key; the flows are given up, and undone

	// In a storm, the process asks at random for flows out of Names, from First on, until it is killed. In its Last
	// life it continues until all are finished.
	Seed  uint64
	First int
	Names int
	Last  bool
}

// orderSteps are the steps in the flow that is given up, each with its undo.
var orderSteps = []struct{ name, undo, provider string }{{"create", "cancel", "ledger"}, {"charge", "refund", "stripe"}}

var errNoCourier = flow.Reason("no courier is there")

// order is a flow that makes an effect at each provider, finds no courier, and takes both back.
func (plan *flowPlan) order(hc *http.Client) *flow.Func[string, string] {
	post := func(ctx context.Context, at, id, step string) (charge, error) {
		to := plan.Ledger + "/rides/" + step
		if at == "stripe" {
			to = plan.Stripe + "/v1/" + step + "s"
		}
		var c charge
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(fmt.Sprintf(`{"ride":%q,"step":%q}`, id, step)))
		if err != nil {
			return c, err
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := hc.Do(req)
		if err != nil {
			return c, err
		}
		defer resp.Body.Close()
		if err := json.NewDecoder(resp.Body).Decode(&c); err != nil || resp.StatusCode != http.StatusOK {
			return c, fmt.Errorf("status %d, %w", resp.StatusCode, err)
		}
		return c, nil
	}
	return flow.Define("order", 1, func(ctx context.Context, id string) (string, error) {
		for _, s := range orderSteps {
			_, err := flow.Step(ctx, s.name, func(ctx context.Context) (charge, error) { return post(ctx, s.provider, id, s.name) },
				flow.WithUndo(func(ctx context.Context, _ charge) error {
					_, err := post(ctx, s.provider, id, s.undo)
					return err
				}))
			if err != nil {
				return "", err
			}
		}
		return "", flow.GiveUp(errNoCourier)
	})
}

// serve asks for an order as a service's caller does.
func (plan *flowPlan) serve(ctx context.Context, client *onceward.Client, flows *flow.Runner, order *flow.Func[string, string], id string) error {
	inbound, err := server.Inbound(client, func(*http.Request) (string, error) { return "shop", nil }, server.InboundOptions{})
	if err != nil {
		return err
	}
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/orders", strings.NewReader(id))
	r.Header.Set("Idempotency-Key", id)
	inbound(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, err = order.Run(r.Context(), flows, "order", id) })).
		ServeHTTP(httptest.NewRecorder(), r)
	return err
}

// flowLife is the report of such a process.
type flowLife struct {
	Resumed onceward.FlowReport // without its problems
	Left    []flow.Flow         // as Resume left them
	Errs    []string
	Flows   []flow.Flow
	Rows    []string // of the program's own table, one for each flow

	// Before the life enqueued.
	FoundOrders int
	FoundFlows  int
	Orders      int // at its end
}

// rideSteps are the steps of the flow that the crash tests run, each an effect at one
// of two providers.
var rideSteps = []struct{ name, provider string }{
	{"create", "ledger"}, {"charge", "stripe"}, {"notify", "ledger"}, {"receipt", "stripe"},
}

func beforeFlowEvent(k machine.FlowEventKind) point { return point("before flow " + k.String()) }
func afterFlowEvent(k machine.FlowEventKind) point  { return point("after flow " + k.String()) }

// doomedFlows reaches the points around the flows' events, too.
type doomedFlows struct {
	oncetest.DoomedJournal
	flows machine.LocalFlows
}

// The points within a local step's transaction.
const (
	inTransaction  point = "in a local step's transaction"
	beforeRecord   point = "before a local step's record"
	beforeItCommit point = "after a local step's record, before its commit"
	afterCommit    point = "after the commit of a transaction that enqueued a flow"
)

func (j doomedFlows) BeginTx(ctx context.Context) (journal.Tx, error) { return j.flows.BeginTx(ctx) }

func (j doomedFlows) ApplyFlowTx(ctx context.Context, tx journal.Tx, ev machine.FlowEvent) (machine.FlowResult, error) {
	j.Fate.Reach(beforeRecord)
	res, err := j.flows.ApplyFlowTx(ctx, tx, ev)
	j.Fate.Reach(beforeItCommit)
	return res, err
}

func (j doomedFlows) ApplyFlow(ctx context.Context, ev machine.FlowEvent) (machine.FlowResult, error) {
	j.Fate.Reach(beforeFlowEvent(ev.Kind))
	res, err := j.flows.ApplyFlow(ctx, ev)
	j.Fate.Reach(afterFlowEvent(ev.Kind))
	return res, err
}

func (j doomedFlows) ClaimFlows(ctx context.Context, ev machine.FlowEvent, limit int) ([]machine.FlowResult, error) {
	j.Fate.Reach(beforeFlowEvent(ev.Kind))
	res, err := j.flows.ClaimFlows(ctx, ev, limit)
	j.Fate.Reach(afterFlowEvent(ev.Kind))
	return res, err
}

func (j doomedFlows) GetFlow(ctx context.Context, ref journal.Ref) (journal.Flow, error) {
	return j.flows.GetFlow(ctx, ref)
}

func (j doomedFlows) ListFlows(ctx context.Context, f journal.FlowFilter) iter.Seq2[journal.Flow, error] {
	return j.flows.ListFlows(ctx, f)
}

func (j doomedFlows) ReapFlows(ctx context.Context, ev machine.FlowEvent, limit int) (int, error) {
	return j.flows.ReapFlows(ctx, ev, limit)
}

// ride defines the flow. Every body contains the flow's number and its random values. So a provider would notice
// another value under the same key.
func (plan *flowPlan) ride(mine *oncetest.Fate, hc *http.Client) *flow.Func[string, string] {
	return flow.Define("ride", 1, func(ctx context.Context, id string) (string, error) {
		receipt, err := flow.UUIDStep(ctx, "number")
		if err != nil {
			return "", err
		}
		_, err = flow.LocalStep(ctx, "write", func(ctx context.Context, tx *sql.Tx) (int, error) {
			_, err := tx.ExecContext(ctx, "INSERT INTO rides (ride, number) VALUES (?, ?)", id, receipt)
			mine.Reach(inTransaction)
			return 1, err
		})
		if err != nil {
			return "", err
		}
		for _, s := range rideSteps {
			_, err := flow.Step(ctx, s.name, func(ctx context.Context) (charge, error) {
				to := plan.Ledger + "/rides/" + s.name
				if s.provider == "stripe" {
					to = plan.Stripe + "/v1/charges"
				}
				body := fmt.Sprintf(`{"ride":%q,"step":%q,"number":%q}`, id, s.name, receipt)
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(body))
				if err != nil {
					return charge{}, err
				}
				req.Header.Set("Content-Type", "application/json")
				resp, err := hc.Do(req)
				if err != nil {
					return charge{}, err
				}
				defer resp.Body.Close()
				var c charge
				if err := json.NewDecoder(resp.Body).Decode(&c); err != nil || resp.StatusCode != http.StatusOK {
					return c, fmt.Errorf("status %d, %w", resp.StatusCode, err)
				}
				return c, nil
			})
			if err != nil {
				return "", err
			}
		}
		return receipt, nil
	})
}

func (plan *flowPlan) carryOut() error {
	mine := oncetest.NewFate(plan.Doom)
	file, err := sqlite.Open(plan.Journal, sqlite.Options{Volatile: true})
	if err != nil {
		return err
	}
	ledger, err := url.Parse(plan.Ledger)
	if err != nil {
		return err
	}
	stripe, err := url.Parse(plan.Stripe)
	if err != nil {
		return err
	}
	cards := providers.Stripe()
	cards.Hosts = []string{stripe.Host}
	if _, err := tableOf(file); err != nil {
		return err
	}
	soon := backoff.Policy{Initial: 2 * time.Millisecond, Max: 20 * time.Millisecond}
	client, err := onceward.New(onceward.Config{
		Journal:    doomedFlows{oncetest.DoomedJournal{Store: file, Fate: mine}, file},
		Providers:  []providers.Provider{cards, providers.IETF(24*time.Hour, ledger.Host).WithStoredFailures()},
		HTTPClient: &http.Client{Transport: oncetest.NewDoomedTransport(mine)},
		Backoff:    soon,
		Secret:     testSecret,
	})
	if err != nil {
		return err
	}
	ride, order := plan.ride(mine, client.HTTPClient()), plan.order(client.HTTPClient())
	flows, err := flow.New(client, flow.Config{Definitions: []flow.Definition{ride, order}, Backoff: soon})
	if err != nil {
		return err
	}
	go oncetest.OutliveNobody()
	ctx, cancel := context.WithTimeout(context.Background(), oncetest.PatienceOfAStorm)
	defer cancel()
	if plan.Names > 0 && !plan.Last {
		return plan.storm(ctx, client, flows, ride)
	}
	var life flowLife
	if plan.Enqueues != "" {
		found, err := listed(ctx, flows)
		if err != nil {
			return err
		}
		life.FoundFlows = len(found)
		if life.FoundOrders, err = ordersIn(file); err != nil {
			return err
		}
		if err := plan.enqueue(ctx, mine, file, flows, ride); err != nil {
			return err
		}
	}
	if plan.Resume {
		report, err := client.Resume(ctx)
		if err != nil {
			return err
		}
		life.Resumed = report.Flows
		life.Resumed.Problems = nil
		if life.Left, err = listed(ctx, flows); err != nil {
			return err
		}
	}
	if plan.Last {
		err = plan.calm(ctx, flows, ride)
	}
	told := make([]error, len(plan.Asks))
	oncetest.SeveralAtOnce(len(plan.Asks), max(1, len(plan.Asks)), func(i int) {
		if plan.Inbound {
			told[i] = plan.serve(ctx, client, flows, order, plan.Asks[i])
			return
		}
		_, told[i] = ride.Run(ctx, flows, plan.Asks[i], plan.Asks[i])
	})
	for _, err := range told {
		if err != nil {
			life.Errs = append(life.Errs, err.Error())
		}
	}
	all, unlisted := listed(ctx, flows)
	rows, failed := tableOf(file)
	life.Flows, life.Rows = all, rows
	if plan.Enqueues != "" && failed == nil {
		life.Orders, failed = ordersIn(file)
	}
	if err := errors.Join(err, unlisted, failed, client.Shutdown(ctx), file.Close()); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(life)
}

// enqueue records an order and its flow in one transaction, as the program does again after a crash.
func (plan *flowPlan) enqueue(ctx context.Context, mine *oncetest.Fate, file *sqlite.Journal, flows *flow.Runner, ride *flow.Func[string, string]) error {
	tx, err := file.BeginTx(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }() // after Commit it does nothing
	if _, err := tx.Driver().(*sql.Tx).ExecContext(ctx, "INSERT OR IGNORE INTO orders VALUES (?)", plan.Enqueues); err != nil {
		return err
	}
	mine.Reach(inTransaction)
	if _, err := ride.Enqueue(ctx, flows, tx, plan.Enqueues, plan.Enqueues); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	mine.Reach(afterCommit)
	return nil
}

// ordersIn makes the program's order table, if there is none, and counts its rows.
func ordersIn(j *sqlite.Journal) (n int, err error) {
	tx, err := j.BeginSQL(context.Background())
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, tx.Commit()) }()
	if _, err := tx.Exec("CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY)"); err != nil {
		return 0, err
	}
	return n, tx.QueryRow("SELECT count(*) FROM orders").Scan(&n)
}

func listed(ctx context.Context, flows *flow.Runner) (all []flow.Flow, err error) {
	for f, failed := range flows.Flows(ctx, flow.Filter{}) {
		err = errors.Join(err, failed)
		all = append(all, f)
	}
	return all, err
}

// tableOf makes the program's own table, if there is none, and lists its rows.
func tableOf(j *sqlite.Journal) (rides []string, err error) {
	tx, err := j.BeginSQL(context.Background())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, tx.Commit()) }()
	if _, err := tx.Exec("CREATE TABLE IF NOT EXISTS rides (ride TEXT, number TEXT)"); err != nil {
		return nil, err
	}
	rows, err := tx.Query("SELECT ride FROM rides")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var ride string
		if err := rows.Scan(&ride); err != nil {
			return nil, err
		}
		rides = append(rides, ride)
	}
	return rides, rows.Err()
}

func rideName(i int) string { return fmt.Sprintf("ride-%d", i) }

// storm goes on until the process is killed.
func (plan *flowPlan) storm(ctx context.Context, client *onceward.Client, flows *flow.Runner, ride *flow.Func[string, string]) error {
	if _, err := client.Resume(ctx); err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() { failed <- client.Run(ctx) }()
	for worker := range oncetest.StormWorkers {
		random := rand.New(rand.NewPCG(plan.Seed, uint64(worker)))
		go func() {
			for {
				id := rideName(plan.First + random.IntN(plan.Names))
				_, _ = ride.Run(ctx, flows, id, id)
			}
		}()
	}
	return <-failed
}

// calm asks for every flow until it is finished.
func (plan *flowPlan) calm(ctx context.Context, flows *flow.Runner, ride *flow.Func[string, string]) error {
	errs := make([]error, plan.Names)
	oncetest.SeveralAtOnce(plan.Names, oncetest.StormWorkers, func(i int) {
		for ctx.Err() == nil {
			_, errs[i] = ride.Run(ctx, flows, rideName(i), rideName(i))
			if errs[i] == nil || errors.Is(errs[i], onceward.ErrOutcomeUnknown) || errors.Is(errs[i], onceward.ErrKeyReused) {
				return
			}
			<-time.After(5 * time.Millisecond)
		}
	})
	return errors.Join(errs...)
}
