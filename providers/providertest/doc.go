// Package providertest is a provider in a box: a real HTTP server, on the loopback interface or in memory
// ([NewServerInMemory]), that keeps the idempotency contract of a [providers.Provider]. It works like
// net/http/httptest. Tests for any code that calls such an API can use the package, with or without the rest of the
// module.
//
// # A test of your own
//
// Here charge is the program's function. It sends the invoice's number as Stripe's Idempotency-Key:
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
// This is the same box under an Onceward client, which makes the keys and the retries:
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
// The handler given to [NewServer] is the provider's business. The handler runs once for each execution. The server
// takes the answer as a whole, without trailers. Around the handler the server follows the provider's table, and
// answers in the form of the provider's errors:
//
//   - It reads the key from the table's place: a header, the query, a field in a form or JSON body, an argument in a
//     GraphQL document. A malformed key gets 400.
//   - It reserves the key before the handler runs. A concurrent second request gets the answer that the table reads as
//     InFlight, with Retry-After. If the table claims no guard, the second one executes too.
//   - A known key with another method, URL or body gets the answer that the table reads as Misuse. Without such an answer,
//     the misuse is not detected, and the first result is returned. Bodies are compared by their meaning, as JSON or forms.
//   - It answers a repeat from memory, with the provider's replay mark. If the table has AlreadyDone, a repeat gets the
//     AlreadyDone answer, and a GET fetches the resource. If the table has AnswerGone, a repeat gets the AnswerGone
//     refusal. Remembers defines what is kept. A handler's answer that the table reads as Rejected or NotExecuted was
//     not executed, and is not kept.
//   - It forgets keys when their retention ends, on a clock moved by [Server.Advance]. A provider without a retention
//     never forgets.
//
// [Manner] has the behavior that a table leaves open because no client needs it: PayPal's repeat with 200 instead of
// 201, Svix's five-second lock, paths with common keys. [MannerOf] has the Manner for each of this module's adapters.
// Set it for an API of your own.
//
// Every execution that ends with a status below 400 is an effect, which [Server.Effects] lists. A refusal has none, and
// neither has an error in a 200 of an API with such errors. A decline by a 2xx (Declines of the table) makes an object
// whose state is Refused. [Server.AssertOneEffect] and similar methods fail a test with a table of all requests'
// results.
//
// Faults (lost, cut, late, false and malformed answers) come from [Server.Script], one for each request, or from
// [Server.Seed], repeatably. A net/http client may itself repeat a request with an Idempotency-Key if a reused connection
// breaks. That repeat meets the next fault.
//
// # Look-ups
//
// The table's Lookups find the created objects: by key, reference, parent, time window, page, or id. The server answers
// such a request from the ledger, not by the handler. A look-up shows the handler's answer for the object, with the
// fields that the table names (Same, ID, Created, Means). The creation time is in seconds or milliseconds if the
// handler's answer has some time in these. The handler should give every object its own id, like [Objects].
// [Server.Turn] refuses or reverses an object later.
//
//   - [Server.Visible] and [Server.Lag] delay the time at which an object can be found.
//   - Objects are found only in their account and mode: by [Server.Account], the table's account headers and its credential
//     modes. The table's Identity returns the account.
//   - [Server.ScriptLooks] and [Server.EveryLook] spoil the answers, by the faults of any other request and by [NoList],
//     [Unfiltered], [PageLoop] and [EmptyList]. [Server.MayLook] refuses look-ups without the permission.
//
// [Straggle] executes a request long after its connection broke. A look-up in between wrongly finds nothing.
//
// # Events
//
// [Server.Events] sends the table's events to a URL, signed in the provider's scheme, until it gets a 2xx.
// [Server.ScriptEvents] loses, delays, doubles, reorders, thins or forges events, changes their mode or account, or delivers
// them before the response. [Server.Deliveries] lists the deliveries. [Sign] is for handlers alone.
//
// If the table has a Feed, the server also lists these events, for as long as the table says. The list has lost events,
// but no event that the provider never created (EventManner.Never). [Server.Visible] and [Server.Lag] delay the time at
// which an event is listed. Account, MayLook, PageSize and the faults of look-ups apply to the list, too.
// EventManner.Bulk makes a page too large.
//
// If the table has Listings, the server also lists the objects made by its effects.
//
// # Time
//
// The server has its own clock. [Server.Advance] moves the clock on top of the time that passes anyway. Inside a bubble
// of testing/synctest a server in memory needs no Advance: its clock, delays, stragglers and events use the bubble's
// time.
//
// [Server.AssertSettledTruly] ends a test of reconciliation: a completed operation has one effect, and a cancelled one never
// has any.
//
// # Limits
//
// The server does not serve look-ups in XML. PayPal's signature needs a certificate, which the box does not have:
// [Server.SignEvent] signs instead. Events are always JSON. A look-up shows the fields that the table names and the
// handler's answer, and no other fields of the provider.
//
// The server speaks HTTP/1.1 and HTTP/2, with TLS ([Server.StartTLS]) and without. It keeps everything in memory. All methods
// are safe for concurrent use.
package providertest
