// Package providertest is a provider in a box: a real HTTP server, on the
// loopback interface or in memory ([NewServerInMemory]), that keeps the idempotency
// contract of a [providers.Provider], in the manner of net/http/httptest. It is for
// tests of any code that calls such an API, with or without the rest of this module.
//
// # A test of one's own
//
// Here charge is the program's, and sends the invoice's number as Stripe's
// Idempotency-Key:
//
//	func TestAChargeWhoseAnswerIsLostIsMadeOnce(t *testing.T) {
//		srv := providertest.NewServer(providers.Stripe(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
//			io.WriteString(w, `{"id":"ch_1"}`) // the business, once for each charge
//		}))
//		defer srv.Close()
//		srv.Script(providertest.DropAfter(), providertest.CutAt(5))
//
//		id, err := charge(t.Context(), srv.Client(), srv.URL, "invoice-991")
//		if err != nil || id != "ch_1" {
//			t.Errorf("got %q, %v", id, err)
//		}
//		srv.AssertOneEffect(t, "invoice-991")
//
//		srv.Advance(24 * time.Hour) // Stripe forgets the key: a late retry charges again
//		charge(t.Context(), srv.Client(), srv.URL, "invoice-991")
//		srv.AssertEffects(t, "invoice-991", 2)
//	}
//
// The same box under a client of Onceward's, which makes the keys and the
// retries by itself:
//
//	func TestNoChargeIsMadeTwice(t *testing.T) {
//		srv := providertest.NewServer(providers.Stripe(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
//			io.WriteString(w, `{"id":"ch_1"}`)
//		}))
//		defer srv.Close()
//		srv.Seed(1, providertest.Mix{DropBefore: 0.2, DropAfter: 0.2, Cut: 0.2})
//
//		client, err := onceward.New(onceward.Config{
//			Journal:    memory.New(),
//			Providers:  []providers.Provider{srv.Provider()},
//			HTTPClient: srv.Client(),
//			Backoff:    backoff.Policy{Initial: time.Millisecond, MaxAttempts: 20},
//		})
//		if err != nil {
//			t.Fatal(err)
//		}
//		defer client.Shutdown(t.Context())
//
//		for n := range 20 {
//			invoice := fmt.Sprintf("invoice-%d", n)
//			ctx := onceward.WithOperation(t.Context(), invoice+"/charge")
//			req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL+"/v1/charges", strings.NewReader("description="+invoice))
//			if err != nil {
//				t.Fatal(err)
//			}
//			resp, err := client.HTTPClient().Do(req)
//			if err != nil {
//				t.Fatal(err)
//			}
//			resp.Body.Close()
//		}
//		if n := len(srv.Effects()); n != 20 {
//			t.Errorf("%d charges, not 20:\n%s", n, srv.Ledger())
//		}
//		srv.AssertNoDuplicates(t, func(e providertest.Effect) string { return string(e.Body) })
//	}
//
// # What the server does
//
// The handler given to [NewServer] is the provider's business: it runs once for
// each execution. Its answer is taken as a whole, without trailers. Around it the
// server does what the provider's table says, and answers from that same table, in
// the form that the provider's errors have:
//
//   - It reads the key from where the endpoint takes it: a header, the query, a
//     field of a form or of a JSON body, an argument of a GraphQL document. A
//     malformed one gets 400.
//   - It reserves the key before it works. A second request meanwhile gets the
//     answer that the table reads as InFlight, with Retry-After; where the table
//     claims no guard, it executes too.
//   - A known key with another method, URL or body gets the answer that the
//     table reads as Misuse; where there is none, the misuse goes unnoticed and
//     the first result is given again. The requests are compared by what their
//     bodies mean, as JSON or as forms.
//   - A repeat is answered from memory, with the provider's replay mark; where the
//     table has AlreadyDone, by that answer, and the resource it points to can be
//     fetched by a GET. What is kept follows Remembers. An answer of the handler's
//     that the table reads as Rejected or NotExecuted was not executed, and is not
//     kept.
//   - Keys are forgotten at the end of their retention, on a clock that
//     [Server.Advance] moves. A provider without a retention never forgets.
//
// What a table leaves open, since a client needn't know it, is in [Manner]:
// PayPal's repeat by 200 for 201, Svix's lock of five seconds, the paths that share
// their keys. It is known of this module's adapters ([MannerOf]) and can be set for
// an API of one's own.
//
// Every execution that ends with a status below 400 is an effect, listed by
// [Server.Effects]: a refusal has none, and neither has an error in a 200 of an API
// that has such. [Server.AssertOneEffect] and its like fail a test with a table of
// what became of each request.
//
// Faults (lost, cut, late, false and malformed answers) are scripted by
// [Server.Script], one for each request, or drawn by [Server.Seed], repeatably.
// A client of net/http's may repeat a request with an Idempotency-Key by itself, if
// a connection that was used before breaks: that repeat meets the next fault.
//
// # Look-ups
//
// What was made can be found again as the table's Lookups say: by its key, its reference,
// its parent, in a window of time, on pages, or by its id. Such a request is answered from
// the ledger and not by the handler, by what the handler answered when the object was made
// and by what the table says that its items show (Same, ID, Created, Means). When it was made
// is shown in seconds or milliseconds if the handler's answer has some time in these. The handler
// should give every object an id of its own, as [Objects] does. [Server.Turn] has an object
// be refused, or reversed, later.
//
//   - [Server.Visible] and [Server.Lag] let time pass before an object is found.
//   - Objects are found in the account and mode only that they were made in: by
//     [Server.Account], the table's account headers and its credential modes. The
//     table's Identity is answered by the account.
//   - [Server.ScriptLooks] and [Server.EveryLook] spoil the answers, by the faults of any
//     other request and by [NoList], [Unfiltered], [PageLoop] and [EmptyList];
//     [Server.MayLook] refuses who lacks the permission.
//
// [Straggle] has a request be executed long after its connection broke: what made a look-up
// that found nothing wrong.
//
// # Events
//
// [Server.Events] has the server send what the table's Events tell of to a URL, signed in
// the provider's scheme, until it is answered by a 2xx. [Server.ScriptEvents] has events be
// lost, late, doubled, out of order, thin, forged, of another mode or account, or come
// before the response does; [Server.Deliveries] says what was sent. [Sign] is for
// handlers alone.
//
// # Time
//
// The server has a clock of its own, which [Server.Advance] moves on top of the time that
// passes by itself. Inside a bubble of testing/synctest a server in memory needs no Advance:
// its clock is the bubble's, and so are its delays, its stragglers and its events.
//
// [Server.AssertSettledTruly] ends a test of what is found out after answers were lost: what
// is completed has one effect, and what is cancelled has none, ever.
//
// # Limits
//
// Look-ups in XML are not served. PayPal's signature needs a certificate, which a box has
// none of: [Server.SignEvent] signs in its place. Events are JSON, whatever the provider
// sends. A look-up shows what the table says of an item and what the handler answered,
// nothing else that a provider may have there.
//
// The server speaks HTTP/1.1 and HTTP/2, with TLS ([Server.StartTLS]) and without.
// Everything is kept in memory, and all methods are safe for concurrent use.
package providertest
