package main

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// known returns the compiled tables, except those that need a host or an account. An application may have others, or
// other versions of these.
func known() []providers.Provider {
	return []providers.Provider{
		providers.Braintree(), providers.Bridge(), providers.Checkout(), providers.Coinbase(), providers.Dwolla(), providers.Fireblocks(),
		providers.GoCardless(), providers.Increase(), providers.Klarna(), providers.Mangopay(), providers.ModernTreasury(), providers.Mollie(),
		providers.Moov(), providers.PayPal(), providers.Resend(), providers.Stripe(), providers.TrueLayer(), providers.Twilio(),
		providers.WorkOS(), providers.Worldline(), providers.Zuora(), providers.Svix(),
		providers.Airwallex(), providers.AmazonPay(), providers.Chargebee(), providers.Circle(), providers.Finix(), providers.Flutterwave(),
		providers.Lithic(), providers.Paystack(), providers.Plaid(), providers.Rapyd(), providers.Telnyx(),
	}
}

// contracts are the providers' tables.
type contracts struct {
	Providers []contract `json:"providers"`
}

type contract struct {
	Name      string     `json:"name"`
	Hosts     []string   `json:"hosts"`
	Endpoints int        `json:"endpoints" doc:"how many the table has"`
	Listed    []endpoint `json:"listed,omitempty" doc:"show: each of them"`
}

type endpoint struct {
	Pattern          string  `json:"pattern"`
	NoEffect         bool    `json:"no_effect,omitempty" doc:"it changes nothing, and passes through"`
	Key              string  `json:"key,omitempty" doc:"where its key goes; left out: it takes none"`
	Remembers        string  `json:"remembers" doc:"what the provider remembers of a key"`
	RetentionSeconds float64 `json:"retention_seconds,omitempty"`
	Guard            bool    `json:"guard"`
	WindowSeconds    float64 `json:"window_seconds,omitempty" doc:"how long after the first send a resend is safe; left out: never proven"`
}

func (l *contracts) lines() []any { return lines(l.Providers) }

func (l *contracts) table(t *table) {
	t.row("PROVIDER", "ENDPOINTS", "HOSTS")
	for _, p := range l.Providers {
		t.row(p.Name, text(p.Endpoints), strings.Join(p.Hosts, " "))
	}
}

func (p *contract) table(t *table) {
	t.fact("provider", p.Name)
	t.fact("hosts", strings.Join(p.Hosts, " "))
	t.flush()
	t.row("ENDPOINT", "KEY", "REMEMBERS", "FOR", "RESENT FOR")
	for _, e := range p.Listed {
		if e.NoEffect {
			t.row(e.Pattern, "", "no effect, passes through")
			continue
		}
		t.row(e.Pattern, e.Key, e.Remembers, seconds(e.RetentionSeconds), seconds(e.WindowSeconds))
	}
}

func seconds(s float64) string {
	if s == 0 {
		return ""
	}
	return shown.Duration(time.Duration(s * float64(time.Second)))
}

func endpointOf(e *providers.Endpoint) endpoint {
	t := termsOf(e)
	out := endpoint{
		Pattern: e.Pattern, NoEffect: e.NoEffect, Remembers: t.Remembers.String(), RetentionSeconds: t.Retention.Seconds(), Guard: t.Guard,
		WindowSeconds: t.Window().Seconds(),
	}
	if e.Key.Place != providers.KeyNone {
		out.Key = strings.TrimSpace(e.Key.Place.String() + " " + e.Key.Name)
	}
	return out
}

func termsOf(e *providers.Endpoint) journal.Terms {
	t := journal.Terms{Retention: e.Retention, Guard: e.InFlightGuard, Handling: e.HandlingTime}
	if e.Key.Place != providers.KeyNone {
		t.Remembers = e.Remembers
	}
	return t
}

func contractOf(p *providers.Provider, whole bool) contract {
	out := contract{Name: p.Name, Hosts: p.Hosts, Endpoints: len(p.Endpoints)}
	for i := range p.Endpoints {
		if whole {
			out.Listed = append(out.Listed, endpointOf(&p.Endpoints[i]))
		}
	}
	return out
}

// explained has the facts about a request before it is sent.
type explained struct {
	Request  string    `json:"request"`
	Provider string    `json:"provider,omitempty" doc:"left out: no table serves the host"`
	Effect   bool      `json:"effect" doc:"it may change something, and is recorded"`
	Listed   bool      `json:"listed" doc:"an endpoint of the table matches"`
	Endpoint *endpoint `json:"endpoint,omitempty"`
	Says     string    `json:"says"`
}

func (e *explained) table(t *table) {
	t.fact("request", shown.Text(e.Request))
	t.fact("provider", e.Provider)
	if p := e.Endpoint; p != nil {
		t.fact("endpoint", p.Pattern)
		t.fact("key", p.Key)
		t.fact("remembers", p.Remembers+" "+seconds(p.RetentionSeconds))
		t.fact("resent for", seconds(p.WindowSeconds))
	}
	t.fact("so", e.Says)
}

func (c *command) providersCommand() *cobra.Command {
	root := &cobra.Command{
		Use: "providers", Short: "What this command's tables say of providers; the application may have its own",
		Args: exactly(1, "ls, show or explain"), RunE: func(*cobra.Command, []string) error { return usage("there are ls, show and explain") },
	}
	root.AddCommand(
		&cobra.Command{Use: "ls", Short: "List the providers", Args: exactly(0, ""), RunE: func(*cobra.Command, []string) error {
			all := &contracts{}
			for _, p := range known() {
				all.Providers = append(all.Providers, contractOf(&p, false))
			}
			slices.SortFunc(all.Providers, func(a, b contract) int { return strings.Compare(a.Name, b.Name) })
			return c.say(all)
		}},
		&cobra.Command{Use: "show NAME", Short: "Show a provider's contract", Args: exactly(1, "the name of a provider"), RunE: func(_ *cobra.Command, args []string) error {
			for _, p := range known() {
				if strings.EqualFold(p.Name, args[0]) {
					one := contractOf(&p, true)
					return c.say(&one)
				}
			}
			return notFound("there is no table of provider %s here: see providers ls", shown.Text(args[0]))
		}},
		&cobra.Command{Use: "explain METHOD URL", Short: "Say which contract a request would be under", Args: exactly(2, "a method and a URL"),
			RunE: func(_ *cobra.Command, args []string) error {
				e, err := explain(strings.ToUpper(args[0]), args[1])
				if err != nil {
					return err
				}
				return c.say(e)
			}},
	)
	return root
}

func explain(method, raw string) (*explained, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || strings.ContainsFunc(method, func(r rune) bool { return r < 'A' || r > 'Z' }) {
		return nil, usage("explain needs a method and a whole URL, such as POST https://api.stripe.com/v1/charges")
	}
	router, err := tables.NewRouter(known())
	if err != nil {
		return nil, err
	}
	route := router.Route(method, u)
	e := &explained{Request: method + " " + withoutQuery(raw), Effect: route.Effect, Listed: route.Listed}
	if route.Provider != nil {
		e.Provider = route.Provider.Name
	}
	switch {
	case !route.Effect && (method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions):
		e.Says = "it only reads: it is not recorded"
		return e, nil
	case !route.Effect:
		e.Says = "the table says that it has no effect: it is not recorded"
		return e, nil
	case route.Provider == nil:
		e.Says = "no table here serves the host: it passes through, unless it is named, and is then never sent again once it may have run"
		return e, nil
	case route.Undecided:
		e.Says = "the body decides which of the table's endpoints it is under"
		return e, nil
	}
	one := endpointOf(route.Endpoint)
	e.Endpoint = &one
	e.Says = "once it may have run it is never sent again: it becomes unknown"
	if one.WindowSeconds > 0 {
		e.Says = fmt.Sprintf("it is sent again with its key for %s after its first send; then it is unknown", seconds(one.WindowSeconds))
	}
	return e, nil
}
