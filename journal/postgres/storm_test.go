package postgres_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	retry "github.com/cenkalti/backoff/v4"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/lifeline"
	"github.com/onceward/onceward/internal/market"
	"github.com/onceward/onceward/internal/pgproxy"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/internal/tempfiles"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
	"github.com/onceward/onceward/seal"
)

// Environment variables of a child of the test's binary.
const (
	payerVariable    = "ONCEWARD_TEST_PAYER"    // how many payments there are
	databaseVariable = "ONCEWARD_TEST_DATABASE" // through the payer's own proxy
	directVariable   = "ONCEWARD_TEST_DIRECT"   // past the proxy
	schemaVariable   = "ONCEWARD_TEST_SCHEMA"
	stripeVariable   = "ONCEWARD_TEST_STRIPE"
	lateVariable     = "ONCEWARD_TEST_LATE"  // a file for sends that begin too late
	orderVariable    = "ONCEWARD_TEST_ORDER" // the seed of the payments' order
	ringVariable     = "ONCEWARD_TEST_RING"  // text of the keys; "" means that the journal is in clear
)

func TestMain(m *testing.M) {
	lifeline.Follow()
	if payments, err := strconv.Atoi(os.Getenv(payerVariable)); err == nil {
		if err := pay(context.Background(), payments); err != nil {
			fmt.Fprintln(os.Stderr, "payer:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if name := os.Getenv(sleeperVariable); name != "" {
		if err := beginAndTell(context.Background(), name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if ledger := os.Getenv(sellerVariable); ledger != "" {
		fmt.Fprintln(os.Stderr, sell(context.Background(), ledger))
		os.Exit(1)
	}
	if name := os.Getenv(crasherVariable); name != "" {
		fmt.Fprintln(os.Stderr, beginAndHang(context.Background(), name))
		os.Exit(1)
	}
	if plan, is, err := market.Planned(); is {
		var db market.Database
		if err == nil {
			db, err = openMarket(context.Background(), plan.Database)
		}
		if err == nil {
			err = plan.Serve(context.Background(), db)
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(tempfiles.InMemory(m.Run))
}

func paymentName(i int) string { return fmt.Sprintf("pay-%05d", i) }

// pay is the code of a payer. It asks for every payment, whichever process makes it, and ends when all are settled.
func pay(ctx context.Context, payments int) error {
	direct, err := pgxpool.New(ctx, os.Getenv(directVariable))
	if err != nil {
		return err
	}
	defer direct.Close()
	schema := os.Getenv(schemaVariable)
	opts := postgres.Options{Schema: schema, Deployment: "test", Failover: postgres.MayLose}
	if text := os.Getenv(ringVariable); text != "" {
		if opts.Seal, err = seal.ParseRing([]byte(text)); err != nil {
			return err
		}
	}
	var j *postgres.Journal
	open := func() (err error) {
		j, err = postgres.Open(ctx, os.Getenv(databaseVariable), opts)
		return err
	}
	// The payer may be cut off.
	if err := again(ctx, open); err != nil {
		return err
	}
	at, err := url.Parse(os.Getenv(stripeVariable))
	if err != nil {
		return err
	}
	contract := providers.Stripe()
	contract.Hosts = []string{at.Host}
	watched := http.DefaultTransport.(*http.Transport).Clone()
	watched.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		select {
		case <-time.After(15 * time.Millisecond): // as long as a name server and a handshake take
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &askingConn{Conn: conn, direct: direct, schema: schema}, nil
	}
	client, err := onceward.New(onceward.Config{
		Journal: j, Providers: []providers.Provider{contract}, HTTPClient: &http.Client{Transport: noting{watched}},
		Authorize: func(req *http.Request) error {
			req.Header.Set("Authorization", "Bearer sk_test_in_a_box")
			return nil
		},
		Backoff: backoff.Policy{Initial: 50 * time.Millisecond, Max: 2 * time.Second},
	})
	if err != nil {
		return err
	}
	go client.Run(ctx)
	var group sync.WaitGroup
	next := make(chan int)
	for range 16 {
		group.Go(func() {
			for i := range next {
				_ = again(ctx, func() error {
					if !payOnce(ctx, client, at, paymentName(i)) {
						return errUnpaid
					}
					return nil
				})
			}
		})
	}
	order, err := strconv.ParseUint(os.Getenv(orderVariable), 10, 64)
	if err != nil {
		return err
	}
	for _, i := range rand.New(rand.NewPCG(order, 0)).Perm(payments) {
		next <- i
	}
	close(next)
	group.Wait()
	if err := client.Shutdown(ctx); err != nil { // cut off just then: its session expires
		fmt.Fprintln(os.Stderr, "payer:", err)
	}
	return j.Close()
}

var errUnpaid = errors.New("not paid yet")

// again calls f until f succeeds or ctx ends.
func again(ctx context.Context, f func() error) error {
	return retry.Retry(f, retry.WithContext(retry.NewConstantBackOff(100*time.Millisecond), ctx))
}

// payOnce asks for a payment, and reports whether it is paid.
func payOnce(ctx context.Context, client *onceward.Client, at *url.URL, name string) bool {
	form := url.Values{"amount": {"2000"}, "currency": {"eur"}, "metadata[payment]": {name}}
	req, err := http.NewRequestWithContext(onceward.WithOperation(ctx, name), http.MethodPost, at.String()+"/v1/charges", strings.NewReader(form.Encode()))
	if err != nil {
		return false
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("X-Payment", name)
	resp, err := client.HTTPClient().Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// noting notes when each request asked for its connection, and when its client last checked its lease. The client
// checks as the headers are written.
type noting struct{ http.RoundTripper }

func (n noting) RoundTrip(req *http.Request) (*http.Response, error) {
	var conn *askingConn
	began := time.Now()
	return n.RoundTripper.RoundTrip(req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			conn = info.Conn.(*askingConn)
			conn.began.Store(began.UnixNano())
		},
		WroteHeaders: func() { conn.looked.Store(time.Now().UnixNano()) }, // runs before the client's own hook, which was registered first
	})))
}

// askingConn asks the database, before the first byte of a request, whether the lease of the payment's holder still
// runs. If a process took the payment over from a stopped one, that one's answer may settle it meanwhile. Then the
// lease of the new holder counts, which can't know of the answer yet.
type askingConn struct {
	net.Conn
	direct        *pgxpool.Pool
	schema        string
	began, looked atomic.Int64 // in nanoseconds of the clock
}

var paymentHeader = regexp.MustCompile(`X-Payment: (\S+)`)

func (c *askingConn) Write(b []byte) (int, error) {
	name := paymentHeader.FindSubmatch(b)
	if name == nil {
		return c.Conn.Write(b)
	}
	var live bool
	ask := func() error {
		return c.direct.QueryRow(context.Background(), `SELECT EXISTS (SELECT 1 FROM "`+c.schema+`".operations o JOIN "`+c.schema+`".sessions s
			ON s.id = o.holder OR o.settled_at IS NOT NULL AND s.started_at < $3
			WHERE position($1::bytea IN o.facts) > 0 AND s.pid = $2 AND s.id <> s.process AND s.buried_at IS NULL AND s.expires_at > clock_timestamp())`,
			name[1], os.Getpid(), time.Unix(0, c.began.Load())).Scan(&live)
	}
	err := ask()
	for patience := time.After(time.Minute); err != nil && patience != nil; { // the database is down
		select {
		case <-time.After(20 * time.Millisecond):
			err = ask()
		case <-patience:
			patience = nil
		}
	}
	// If the process was stopped after its client checked the lease, it may send late. The database's answer may also
	// be from a time after the headers were written.
	recent := time.Since(time.Unix(0, c.looked.Load())) < time.Second
	n, failed := c.Conn.Write(b)
	// If its client found the lease over, the client has closed the connection, and nothing is sent.
	if (err != nil || !live) && recent && n > 0 {
		c.tell(fmt.Sprintf("%s, pid %d, error %v\n", name[1], os.Getpid(), err))
	}
	return n, failed
}

func (c *askingConn) tell(line string) {
	if f, err := os.OpenFile(os.Getenv(lateVariable), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
		_, _ = f.WriteString(line)
		_ = f.Close()
	}
}

// stormPayer is one of the payers. It starts again whenever it was killed.
type stormPayer struct {
	proxy *pgproxy.Proxy
	env   []string
	rings []string // texts of the keys of one life after the other

	mu                   sync.Mutex
	cmd                  *exec.Cmd
	kills, stops, cutoff int
}

// live runs the payer until it has finished.
func (p *stormPayer) live(ctx context.Context, t *testing.T) {
	for life := 0; ctx.Err() == nil; life++ {
		var stderr bytes.Buffer
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env, cmd.Stderr = append(os.Environ(), p.env...), &stderr
		if len(p.rings) > 0 {
			cmd.Env = append(cmd.Env, ringVariable+"="+p.rings[life%len(p.rings)])
		}
		if !assert.NoError(t, lifeline.Tie(cmd)) {
			return
		}
		p.mu.Lock()
		p.cmd = cmd
		err := cmd.Start()
		p.mu.Unlock()
		if !assert.NoError(t, err) {
			return
		}
		err = cmd.Wait()
		if err == nil {
			return
		}
		if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
			assert.NoError(t, err, stderr.String())
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// strike kills the payer, stops it or cuts it off. The strike is over at the latest when the payer has finished.
func (p *stormPayer) strike(random *rand.Rand, ended <-chan struct{}) {
	p.mu.Lock()
	cmd := p.cmd
	p.mu.Unlock()
	if cmd == nil || cmd.Process == nil { // it has not started
		return
	}
	// Half of the pauses and partitions outlive a lease of 15 s.
	pause := time.Duration(1+random.IntN(2)*16)*time.Second + time.Duration(random.Int64N(int64(3*time.Second)))
	wait := func() {
		select {
		case <-time.After(pause):
		case <-ended:
		}
	}
	switch random.IntN(4) {
	case 0, 1:
		p.kills++
		_ = cmd.Process.Kill()
	case 2:
		p.stops++
		_ = cmd.Process.Signal(syscall.SIGSTOP)
		wait()
		_ = cmd.Process.Signal(syscall.SIGCONT)
	case 3:
		p.cutoff++
		p.proxy.CutOff()
		wait()
		p.proxy.Heal()
	}
}

// Five processes share a journal, and are killed, stopped and cut off from it at random. Every payment is made once,
// and no process sends after its lease has expired. The journal is sealed, and each process comes back with the next step of
// a rotation.
func TestFleetStorm(t *testing.T) {
	t.Parallel()
	storm(t, 5, soak.Times(400, 2000), soak.Times(2, 6), []string{ringText("k1", "k2", "k3"), ringText("k2", "k1", "k3"), ringText("k3", "k2", "k1")}, nil)
}

// ringText returns the text of keys with these IDs, the same each time.
func ringText(ids ...string) (text string) {
	for _, id := range ids {
		secret := sha256.Sum256([]byte(id))
		text += id + ":" + base64.StdEncoding.EncodeToString(secret[:]) + "\n"
	}
	return text
}

// The same holds if the database fails meanwhile, in several ways. It restarts at once, terminates all clients, loses
// one of its processes to the kernel, or has all connections cut.
func TestFleetStormBesideADatabaseThatFails(t *testing.T) {
	t.Parallel()
	fails := map[string]int{}
	storm(t, 3, soak.Times(300, 1500), soak.Times(2, 6), nil, func(server *postgrestest.Cluster, fleet []*stormPayer, random *rand.Rand) {
		switch way := [...]string{"restarted", "terminated", "killed", "cut"}[random.IntN(4)]; way {
		case "restarted":
			server.Restart(t, postgrestest.Immediate)
			fails[way]++
		case "terminated", "killed":
			conn, err := pgx.Connect(t.Context(), server.URL())
			if err != nil { // the server recovers
				return
			}
			defer conn.Close(context.Background())
			pids, err := conn.Query(t.Context(), "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'")
			var all []int
			if err == nil {
				all, err = pgx.CollectRows(pids, pgx.RowTo[int])
			}
			if err != nil || len(all) == 0 {
				return
			}
			if fails[way]++; way == "killed" {
				_ = syscall.Kill(all[random.IntN(len(all))], syscall.SIGKILL)
				return
			}
			_, _ = conn.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM unnest($1::int[]) pid", all)
		case "cut":
			for _, p := range fleet {
				p.proxy.CutAll()
			}
			fails[way]++
		}
	})
	t.Logf("the database failed: %v", fails)
}

// storm runs that many payers, strikes each of them that often, and calls fail every few seconds, if it is not nil. The
// payers' rings are those of their lives; without any, the journal is in clear.
func storm(t *testing.T, payers, payments, strikes int, rings []string, fail func(*postgrestest.Cluster, []*stormPayer, *rand.Rand)) {
	server := postgrestest.Start(t)
	opts := durable(t, server)
	require.NoError(t, postgres.Migrate(t.Context(), server.URL(), opts.Schema))
	seed := soak.Seed(t, 1)

	box := providertest.NewUnstartedServer(providers.Stripe(), providertest.ObjectsIn("", "ch_"))
	box.Seed(seed, providertest.Mix{DropBefore: 0.03, DropAfter: 0.04, DelayAfter: 0.1, Status: 0.05, MaxDelay: 200 * time.Millisecond,
		Statuses: []int{http.StatusTooManyRequests, http.StatusServiceUnavailable}})
	box.Start()
	t.Cleanup(box.Close)
	late := filepath.Join(t.TempDir(), "late")

	ctx := within(t, 8*time.Minute)
	var group sync.WaitGroup
	fleet := make([]*stormPayer, payers)
	for i := range fleet {
		proxy, url := proxied(t, server)
		p := &stormPayer{proxy: proxy, rings: rings, env: []string{
			payerVariable + "=" + strconv.Itoa(payments), databaseVariable + "=" + url, directVariable + "=" + server.URL(),
			schemaVariable + "=" + opts.Schema, stripeVariable + "=" + box.URL, lateVariable + "=" + late, orderVariable + "=" + strconv.Itoa(i),
		}}
		fleet[i] = p
	}
	for i, p := range fleet {
		ended := make(chan struct{})
		group.Go(func() {
			defer close(ended)
			p.live(ctx, t)
		})
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		group.Go(func() {
			for n := range strikes {
				// The first failure comes while the payers of a fast machine still have payments to make.
				select {
				case <-time.After(time.Duration(min(n, 1))*time.Second + time.Duration(random.Int64N(int64(2*time.Second)))):
				case <-ended:
					return
				}
				p.strike(random, ended)
			}
		})
	}
	paid := make(chan struct{})
	failed := make(chan struct{})
	failures := 0
	if fail != nil {
		failures = soak.Times(20, 100)
	}
	go func() {
		defer close(failed)
		random := rand.New(rand.NewPCG(seed, uint64(payers)))
		for n := range failures { // a machine where each takes long comes to its end too
			select {
			case <-time.After(time.Duration(min(n, 1))*time.Second + time.Duration(random.Int64N(int64(2*time.Second)))):
				fail(server, fleet, random)
			case <-paid:
				return
			}
		}
	}()
	group.Wait()
	close(paid)
	<-failed
	require.NoError(t, ctx.Err(), "it has to come to its end")

	kills, stops, cuts := 0, 0, 0
	for _, p := range fleet {
		kills, stops, cuts = kills+p.kills, stops+p.stops, cuts+p.cutoff
	}
	t.Logf("%d kills, %d pauses, %d partitions; %d requests for %d payments", kills, stops, cuts, box.Requests(), payments)
	effects := map[string]int{}
	for _, e := range box.Effects() {
		effects[e.Header.Get("X-Payment")]++
	}
	assert.Len(t, effects, payments, "nothing is lost")
	for name, n := range effects {
		assert.Equal(t, 1, n, name)
	}
	require.Eventually(t, func() bool {
		conn, err := pgx.Connect(ctx, server.URL())
		if err != nil {
			return false
		}
		return conn.Close(ctx) == nil
	}, soon, tick, "it recovers from the last failure")
	if len(rings) > 0 {
		ring, err := seal.ParseRing([]byte(rings[len(rings)-1]))
		require.NoError(t, err)
		opts.Seal = ring
	}
	for op, err := range openAt(t, server.URL(), opts).List(t.Context(), journal.Filter{}) {
		require.NoError(t, err)
		assert.Equal(t, journal.StateCompleted, op.State, op.ID)
		assert.Empty(t, op.SealedBy, op.ID)
	}
	if told, err := os.ReadFile(late); !errors.Is(err, os.ErrNotExist) {
		assert.Empty(t, string(told), "sends began after their lease had ended")
	}
}
