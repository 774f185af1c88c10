package sim

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// adapter is a provider of this module's tables, and a request with an effect there.
type adapter struct {
	table  func() providers.Provider
	path   string
	form   bool
	header [2]string
	body   string // "REF" in it stands for the errand
	made   string // the answer, with "ID" in it
	status int    // 0: 200
}

const (
	day    = 24 * time.Hour
	region = "eu-west-1"
)

var adapters = []adapter{
	{table: providers.Stripe, path: "/v1/charges", form: true, body: "amount=10&description=REF"},
	{table: func() providers.Provider { return providers.Adyen("") }, path: "/v71/payments"},
	{table: func() providers.Provider { return providers.IETF(day).WithStoredFailures() }, path: "/payments"},
	{table: func() providers.Provider { return providers.Raw(day).WithStoredFailures() }, path: "/payments"},
	{table: func() providers.Provider { return providers.Onceward(day) }, path: "/payments"},
	{table: providers.PayPal, path: "/v2/checkout/orders", status: 201},
	{table: providers.PayPal, path: "/v2/payments/captures/1/refund", status: 201},
	{table: func() providers.Provider { return providers.Square(day) }, path: "/v2/payments"},
	{table: providers.Twilio, path: "/2010-04-01/Accounts/AC1/Calls/CA1/Payments.json", form: true, body: "ChargeAmount=10&Description=REF"},
	{table: providers.GoCardless, path: "/payments", status: 201, made: `{"payments":{"id":"ID"}}`},
	{table: providers.Checkout, path: "/payments", status: 201},
	{table: providers.Mollie, path: "/v2/payments"},
	{table: providers.Klarna, path: "/ordermanagement/v1/orders/1/captures"},
	{table: func() providers.Provider { return providers.Wise(day) }, path: "/v1/transfers"},
	{table: func() providers.Provider { return providers.Razorpay(day) }, path: "/v1/payouts"},
	{table: func() providers.Provider { return providers.Razorpay(day) }, path: "/v1/payments/pay_1/refund"},
	{table: providers.ModernTreasury, path: "/api/payment_orders"},
	{table: providers.Dwolla, path: "/transfers", status: 201},
	{
		table: providers.Braintree, path: "/graphql",
		body: `{"query":"mutation m($input: I!) { chargePaymentMethod(input: $input) { transaction { id } } }","variables":{"input":{"paymentMethodId":"REF"}}}`,
		made: `{"data":{"chargePaymentMethod":{"transaction":{"id":"ID"}}},"extensions":{"requestId":"r"}}`,
	},
	{
		table: func() providers.Provider { return providers.Shopify() }, path: "/admin/api/2026-04/graphql.json",
		body: `{"query":"mutation m($in: I = {a: 1}, $k: String!) { refundCreate(input: {note: \"REF\"}) @idempotent(key: $k) { refund { id } userErrors { code } } }","variables":{"k":"REF-key"}}`,
		made: `{"data":{"refundCreate":{"refund":{"id":"ID"},"userErrors":[]}}}`,
	},
	{table: func() providers.Provider { return providers.Repeatable(day) }, path: "/emails"},
	{table: func() providers.Provider { return providers.AIP155(providers.KeyQuery, day) }, path: "/v1/books?view=full"},
	{table: func() providers.Provider { return providers.AIP155(providers.KeyJSONField, day) }, path: "/v1/books"},
	{table: func() providers.Provider { return providers.AWS(providers.AWSRunInstances(region)) }, path: "/", form: true, body: "Action=RunInstances&KeyName=REF",
		made: "<RunInstancesResponse><instancesSet><item><instanceId>ID</instanceId></item></instancesSet></RunInstancesResponse>"},
	{table: func() providers.Provider { return providers.AWS(providers.AWSTransactWriteItems(region)) }, path: "/", header: [2]string{"X-Amz-Target", "DynamoDB_20120810.TransactWriteItems"}},
	{table: providers.Increase, path: "/ach_transfers"},
	{table: func() providers.Provider { return providers.Column(day) }, path: "/transfers/wire"},
	{table: func() providers.Provider { return providers.Svix() }, path: "/api/v1/app/a/msg", status: 202},
	{table: providers.Resend, path: "/emails"},
	{table: providers.Coinbase, path: "/platform/v2/transfers"},
	{table: providers.Fireblocks, path: "/v1/transactions"},
	{table: providers.Zuora, path: "/v1/orders"},
	{table: providers.Bridge, path: "/v0/transfers", status: 201},
	{table: providers.Mangopay, path: "/v2.01/client/transfers"},
	{table: providers.TrueLayer, path: "/v3/payments", status: 201},
	{table: providers.Worldline, path: "/v2/shop/payments", status: 201, made: `{"payment":{"id":"ID"}}`},
	{table: providers.Moov, path: "/accounts/1/transfers"},
	{table: func() providers.Provider { return providers.MercadoPago(day) }, path: "/v1/payments", status: 201},
	{table: providers.Plaid, path: "/bank_transfer/create"},
	{table: func() providers.Provider { return providers.ACP() }, path: "/checkout_sessions/1/complete"},
	{table: providers.Airwallex, path: "/api/v1/transfers/create"},
	{table: providers.Circle, path: "/v1/payouts"},
	{table: providers.Lithic, path: "/v1/cards"},
	{table: func() providers.Provider { return providers.Marqeta() }, path: "/v3/cards"},
	{table: providers.Chargebee, path: "/api/v2/subscriptions"},
	{table: providers.Flutterwave, path: "/transfers"},
	{table: providers.Rapyd, path: "/v1/payments"},
	{table: providers.Paystack, path: "/transfer"},
	{table: providers.Telnyx, path: "/v2/messages"},
	{table: providers.Finix, path: "/transfers"},
	{table: providers.WorkOS, path: "/audit_logs/events"},
}

// box is an adapter's provider in a life.
type box struct {
	adapter
	server *providertest.Server
	stated providers.Provider

	mu    sync.Mutex
	under int // requests that a fault was scripted for, and that have not ended
}

// script sets the fault of the next request, until met is called.
func (b *box) script(f providertest.Fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.under++
	b.server.Script(f)
}

// met ends a script. If its request never came, the fault befalls no other request.
func (b *box) met() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.under--; b.under == 0 {
		b.server.Unmet()
	}
}

// host returns the host of a box's requests.
func (b *box) host() string { return strings.TrimPrefix(b.server.URL, "http://") }

// opens starts a life's provider with one of this module's tables.
func (w *world) opens(a adapter) *box {
	b := &box{adapter: a}
	b.body, b.made, b.status = cmp.Or(a.body, `{"amount":10,"description":"REF"}`), cmp.Or(a.made, `{"id":"ID"}`), cmp.Or(a.status, http.StatusOK)
	b.server = providertest.NewServerInMemory(a.table(), http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(b.writes(answer), w.makes(b, errandIn(string(text))))
	}))
	b.server.RetryAfter = -1
	b.stated = b.server.Provider()
	b.stated.WebhookSchemes = nil // the world signs all events by Standard Webhooks
	return b
}

func (b *box) writes(answer http.ResponseWriter) io.Writer {
	answer.Header().Set("Content-Type", "application/json")
	if strings.HasPrefix(b.made, "<") {
		answer.Header().Set("Content-Type", "text/xml")
	}
	answer.WriteHeader(b.status)
	return answer
}

var errandPattern = regexp.MustCompile(`errand-\d+|afterwards-end\.\d+-box`)

// errandIn is the errand that a request to an adapter's provider is for.
func errandIn(body string) string { return errandPattern.FindString(body) }

// makes has the effect, and returns its answer.
func (w *world) makes(b *box, errand string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := effect{at: time.Now(), trust: true, knew: true, id: errand + "." + string(rune('1'+len(w.effects[errand])))}
	e.body = strings.ReplaceAll(b.made, "ID", e.id)
	w.effects[errand] = append(w.effects[errand], e)
	w.tell("provider", "", "%s takes effect at %s (%d.)", errand, b.stated.Name, len(w.effects[errand]))
	return e.body
}

// request makes an errand's request at the box's provider.
func (b *box) request(ctx context.Context, errand string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+b.host()+b.path, strings.NewReader(strings.ReplaceAll(b.body, "REF", errand)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if b.form {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if b.header[0] != "" {
		req.Header.Set(b.header[0], b.header[1])
	}
	return req, nil
}

// statuses are the answers by which the provider says that nothing was done: refusals, too, as long as nothing was done
// before.
func (b *box) statuses(refuses bool) (all []int) {
	for _, e := range b.stated.Endpoints {
		for _, r := range e.Rules {
			switch r.Verdict {
			case providers.Final, providers.Rejected:
				if !refuses {
					continue
				}
			case providers.AlreadyDone, providers.AnswerGone, providers.Misuse:
				continue
			}
			if r.Status >= 400 && r.Status < 600 && !slices.Contains(all, r.Status) {
				all = append(all, r.Status)
			}
		}
	}
	for _, e := range b.stated.Endpoints {
		for _, r := range e.Rules {
			if r.Verdict == providers.AlreadyDone || r.Verdict == providers.AnswerGone || r.Verdict == providers.Misuse || !refuses && (r.Verdict == providers.Final || r.Verdict == providers.Rejected) {
				through := max(r.Status, r.Through)
				all = slices.DeleteFunc(all, func(status int) bool { return status >= r.Status && status <= through })
			}
		}
	}
	return append(all, http.StatusServiceUnavailable)
}

// losesAnswers reports whether a failure there may have had an effect that the provider does not remember by the key,
// and that a later request does not repeat.
func (b *box) losesAnswers() bool {
	return slices.ContainsFunc(b.stated.Endpoints, func(e providers.Endpoint) bool { return e.Remembers == providers.SuccessesLostAnswers })
}

// boxes passes a request on to an adapter's provider, which meets the request with the drawn fault.
func (l *line) boxes(req *http.Request, b *box, body []byte) (*http.Response, error) {
	errand := errandIn(string(body))
	if errand == "" {
		return l.passes(req, b, body) // a look, which takes nothing from the script
	}
	l.heedsBudget(b.host())
	l.still.pass("the connection to", b.host())
	if trace := httptrace.ContextClientTrace(req.Context()); trace != nil && trace.GetConn != nil {
		trace.GetConn(b.host())
	}
	if err := req.Context().Err(); err != nil {
		return nil, context.Cause(req.Context())
	}
	defer l.still.pass("the answer of", b.host())
	_, f, random := l.draw(b.host(), errand)
	l.tell("provider", l.process, "%s is sent to %s: %v", errand, b.stated.Name, f)
	if late := l.isLate(errand); late > 0 { // the client leaves its connection unused
		resp, err := l.passes(req, b, body)
		if err == nil {
			l.fault("%s is sent for the first time, %v after it was not to be", errand, late)
		}
		return resp, err
	}
	l.heedsTimes(errand)
	l.mu.Lock()
	dawdles := len(l.underway[errand]) > 0
	fresh := len(l.effects[errand]) == 0 && !dawdles && l.asked[errand] == 1
	l.mu.Unlock()
	fault, delay := providertest.None(), time.Duration(0)
	switch f {
	case refusedTCP, blackHole:
		return nil, errNetwork
	case lostBefore, goAway, movedAway, movedHere, says401:
		fault = providertest.DropBefore()
	case lostAfter, goAwayLate, movedAfter:
		fault = providertest.DropAfter()
	case late, slow, hangs:
		delay = random.within(time.Minute)
		fault = providertest.DelayBefore(delay)
	case cutAnswer:
		fault = providertest.CutAt(random.IntN(20))
	case says429, says503, says409, declines:
		all := b.statuses(fresh)
		status := all[random.IntN(len(all))]
		fault = providertest.Status(status, nil)
	case fails:
		fault = providertest.FailAfter(http.StatusInternalServerError)
		if dawdles && b.losesAnswers() { // there a request that its client has given up never arrives (providers.SuccessesLostAnswers)
			fault = providertest.Status(http.StatusInternalServerError, nil)
		}
	case gateway:
		fault = providertest.PageAfter(http.StatusBadGateway)
	case pretends:
		fault = providertest.PageBefore(http.StatusGatewayTimeout)
	}
	if l.still.isLapsed(errand) {
		return l.passes(req, b, body) // the client leaves its connection unused, so the script stays for another request
	}
	l.heedsRegret(errand)
	ends := l.begins(errand)
	go func() {
		time.Sleep(delay + time.Second)
		ends()
	}()
	b.script(fault)
	resp, err := l.passes(req, b, body)
	b.met()
	if err == nil {
		ends() // a request that is answered has no later effect
	}
	return resp, err
}

// passes sends a request on to an adapter's provider.
func (l *line) passes(req *http.Request, b *box, body []byte) (*http.Response, error) {
	passed := req.Clone(req.Context())
	passed.Body = nil
	passed.URL.Scheme = "http" // the box has no certificate, and credentials go nowhere in clear
	if len(body) > 0 {
		passed.Body = io.NopCloser(strings.NewReader(string(body)))
	}
	resp, err := b.server.Client().Transport.RoundTrip(passed)
	select {
	case <-l.dead:
		return nil, errNetwork
	default:
	}
	if err != nil {
		return nil, err
	}
	resp.Request = req
	l.wins(b.host())
	return resp, nil
}

// order makes an errand's request at a host.
func (l *life) order(ctx context.Context, host, errand, variant string) *http.Request {
	var req *http.Request
	var err error
	if b := l.world.contracts[host].box; b != nil {
		req, err = b.request(ctx, errand)
	} else {
		body := "errand=" + errand
		if variant != noVariant {
			body += "&variant=" + variant
		}
		if req, err = http.NewRequestWithContext(ctx, http.MethodPost, "https://"+host+"/orders", strings.NewReader(body)); err == nil {
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
	}
	if err != nil {
		panic(err)
	}
	return req
}

const noVariant = "none"
