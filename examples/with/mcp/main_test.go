package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/lifeline"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// The kill test's child serves on its standard input and output.
const childVariable = "ONCEWARD_MCP_CHILD"

func TestMain(m *testing.M) {
	lifeline.Follow()
	if path := os.Getenv(childVariable); path != "" {
		if err := serve(context.Background(), path, boxedAt(os.Getenv("STRIPE_URL"), os.Getenv("TWILIO_URL"))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// boxedAt are the providers at boxes.
func boxedAt(stripe, twilio string) services {
	s := services{
		stripe: providers.Stripe(), stripeURL: stripe, stripeKey: "sk_test_box",
		twilio: providers.Twilio(), twilioURL: twilio, account: "AC1", twilioToken: "token",
	}
	s.stripe.Hosts, s.twilio.Hosts = []string{hostOf(stripe)}, []string{hostOf(twilio)}
	return s
}

func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		panic(err)
	}
	return u.Host
}

type world struct {
	stripe, twilio *providertest.Server
	services
	client *mcp.ClientSession
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{stripe: providertest.NewServer(providers.Stripe(), providertest.Objects("ch")), twilio: providertest.NewServer(providers.Twilio(), providertest.Objects("SM"))}
	t.Cleanup(w.stripe.Close)
	t.Cleanup(w.twilio.Close)
	w.services = boxedAt(w.stripe.URL, w.twilio.URL)
	return w
}

// inProcess connects a client to a server in this process.
func (w *world) inProcess(t *testing.T) {
	t.Helper()
	j, err := sqlite.Open(filepath.Join(t.TempDir(), "payments.db"), sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	client, err := onceward.New(onceward.Config{
		Journal: j, Providers: []providers.Provider{w.services.stripe, w.services.twilio}, Authorize: w.authorize, Backoff: backoff.Policy{Initial: 1, Max: 1},
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Shutdown(context.Background()) })
	serverSide, clientSide := mcp.NewInMemoryTransports()
	_, err = newServer(client, w.services).Connect(t.Context(), serverSide, nil)
	require.NoError(t, err)
	w.connect(t, clientSide)
}

func (w *world) connect(t *testing.T, transport mcp.Transport) {
	t.Helper()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), transport, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = session.Close() })
	w.client = session
}

// call calls a tool.
func (w *world) call(t *testing.T, tool string, arguments any) (text string, isError bool) {
	t.Helper()
	result, err := w.client.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	require.NoError(t, err)
	require.Len(t, result.Content, 1)
	return result.Content[0].(*mcp.TextContent).Text, result.IsError
}

// operationIn is the operation that a result names.
func operationIn(text string) string {
	_, operation, _ := strings.Cut(text, "\nOperation: ")
	return operation
}

var (
	order = chargeArguments{Order: "order-7", Amount: 1200, Currency: "eur"}
	hello = textArguments{To: "+15550001", From: "+15550002", Body: "hello"}
)

func TestARetriedCallGetsTheRecordedResult(t *testing.T) {
	w := newWorld(t)
	w.inProcess(t)
	w.stripe.Script(providertest.DropAfter())
	first, isError := w.call(t, "charge", order)
	assert.False(t, isError)
	assert.Regexp(t, "^DONE", first)
	again, isError := w.call(t, "charge", order)
	assert.False(t, isError)
	assert.Regexp(t, "^DONE BEFORE", again)
	assert.Equal(t, operationIn(first), operationIn(again))
	checked, _ := w.call(t, "check", checkArguments{Operation: operationIn(first)})
	assert.Regexp(t, "^DONE", checked)
	require.Len(t, w.stripe.Effects(), 1)
}

func TestAnotherPurposeIsAnotherOperation(t *testing.T) {
	w := newWorld(t)
	w.inProcess(t)
	w.call(t, "send_text", hello)
	reminder := hello
	reminder.Occasion = "second reminder"
	text, _ := w.call(t, "send_text", reminder)
	assert.Regexp(t, "^DONE\\.", text)
	require.Len(t, w.twilio.Effects(), 2)
}

func TestAnOrderIsChargedOnceWithAnyArguments(t *testing.T) {
	w := newWorld(t)
	w.inProcess(t)
	w.call(t, "charge", order)
	other := order
	other.Currency = "EUR"
	text, isError := w.call(t, "charge", other)
	assert.True(t, isError)
	assert.Regexp(t, "^REFUSED", text)
	require.Len(t, w.stripe.Effects(), 1)
}

// A string that is written in another way is another one, and would be another effect.
func TestAnOrderAndANumberHaveOneSpelling(t *testing.T) {
	w := newWorld(t)
	w.inProcess(t)
	w.call(t, "charge", order)
	for _, spelling := range []string{"", " order-7", "order-7 ", "Order-7", "order-07", "order\u20107", "order-\uff17", "order-7\u200b", "order-7\n"} {
		other := order
		other.Order = spelling
		text, isError := w.call(t, "charge", other)
		assert.True(t, isError, "%q", spelling)
		assert.Contains(t, text, "Nothing was sent", "%q", spelling)
	}
	require.Len(t, w.stripe.Effects(), 1)
	w.call(t, "send_text", hello)
	for _, spelling := range []string{"+1 5550001", "15550001", "+1-555-0001"} {
		for _, other := range []textArguments{{To: spelling, From: hello.From, Body: hello.Body}, {To: hello.To, From: spelling, Body: hello.Body}} {
			text, isError := w.call(t, "send_text", other)
			assert.True(t, isError, "%q", spelling)
			assert.Contains(t, text, "Nothing was sent", "%q", spelling)
		}
	}
	require.Len(t, w.twilio.Effects(), 1)
}

// Each try by a model is another call for its host, which may give it another name in _meta.
func TestANameOfTheCallMakesNoSecondCharge(t *testing.T) {
	w := newWorld(t)
	w.inProcess(t)
	w.call(t, "charge", order)
	for _, id := range []string{"toolu_1", "toolu_2"} {
		result, err := w.client.CallTool(t.Context(), &mcp.CallToolParams{Name: "charge", Arguments: order, Meta: mcp.Meta{"onceward.example/call": id}})
		require.NoError(t, err)
		assert.Regexp(t, "^DONE BEFORE", result.Content[0].(*mcp.TextContent).Text)
	}
	require.Len(t, w.stripe.Effects(), 1)
}

// Twilio takes no key for a message. A message whose answer was lost is not sent again, and the result of the call
// says what to do.
func TestUnknownCallReturnsAdvice(t *testing.T) {
	w := newWorld(t)
	w.inProcess(t)
	w.twilio.Script(providertest.DropAfter())
	for range 3 {
		text, isError := w.call(t, "send_text", hello)
		assert.True(t, isError)
		assert.Regexp(t, "^UNKNOWN", text)
		assert.Contains(t, text, "Do not call again")
		checked, _ := w.call(t, "check", checkArguments{Operation: operationIn(text)})
		assert.Regexp(t, "^UNKNOWN", checked)
	}
	require.Len(t, w.twilio.Effects(), 1)
	assert.Equal(t, 1, w.twilio.Requests())
	text, _ := w.call(t, "check", checkArguments{Operation: "charge/none"})
	assert.Regexp(t, "^NEVER RECORDED", text)
}

func TestRefusalAdvisesNoOtherWay(t *testing.T) {
	w := newWorld(t)
	w.stripe.Close()
	w.stripe = providertest.NewServer(providers.Stripe(), http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusPaymentRequired)
		fmt.Fprint(rw, `{"error":{"type":"card_error","code":"card_declined","message":"Your card was declined."}}`)
	}))
	t.Cleanup(w.stripe.Close)
	w.services = boxedAt(w.stripe.URL, w.twilio.URL)
	w.inProcess(t)
	for range 2 {
		text, isError := w.call(t, "charge", order)
		assert.True(t, isError)
		assert.Regexp(t, "^REFUSED.*Your card was declined", text)
	}
	assert.Equal(t, 1, w.stripe.Requests())
}

// The server is killed after Stripe charged and before it could answer. The next one gets the same call.
func TestAKilledServerChargesOnce(t *testing.T) {
	w := newWorld(t)
	var child *exec.Cmd
	var once sync.Once
	w.stripe.Close()
	w.stripe = providertest.NewServer(providers.Stripe(), http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		once.Do(func() { _ = child.Process.Kill() })
		providertest.Objects("ch").ServeHTTP(rw, r)
	}))
	t.Cleanup(w.stripe.Close)
	journal := filepath.Join(t.TempDir(), "payments.db")
	start := func() {
		child = exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childVariable+"="+journal, "STRIPE_URL="+w.stripe.URL, "TWILIO_URL="+w.twilio.URL)
		child.Stderr = os.Stderr
		require.NoError(t, lifeline.Tie(child))
		w.connect(t, &mcp.CommandTransport{Command: child})
	}
	start()
	_, err := w.client.CallTool(t.Context(), &mcp.CallToolParams{Name: "charge", Arguments: order})
	require.Error(t, err, "its server is dead")

	start()
	text, isError := w.call(t, "charge", order)
	assert.False(t, isError, text)
	assert.Regexp(t, "^DONE", text)
	require.Len(t, w.stripe.Effects(), 1)
	w.stripe.AssertOneEffect(t, w.stripe.Effects()[0].Key)
}
