// Command mcp is a Model Context Protocol server whose tools charge a card and send a text message. A call that a client or
// a model retries takes effect once, even if the server was killed in between:
//
//	go run ./mcp -journal payments.db
//
// A client, such as an editor, starts the command and speaks the protocol over standard input and output. Stripe's test
// key is in STRIPE_SECRET_KEY, Twilio's account and token are in TWILIO_ACCOUNT_SID and TWILIO_AUTH_TOKEN. tools.go is
// what a server of your own would contain. docs/agents.md explains the tools.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
)

func main() {
	journal := flag.String("journal", "payments.db", "the journal's file")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := serve(ctx, *journal, apis()); err != nil {
		log.Fatal(err)
	}
}

// apis are the providers that the tools call.
func apis() services {
	return services{
		stripe: providers.Stripe(), stripeURL: "https://api.stripe.com", stripeKey: os.Getenv("STRIPE_SECRET_KEY"),
		twilio: providers.Twilio(), twilioURL: "https://api.twilio.com", account: os.Getenv("TWILIO_ACCOUNT_SID"), twilioToken: os.Getenv("TWILIO_AUTH_TOKEN"),
	}
}

// services are the providers with their addresses and credentials.
type services struct {
	stripe, twilio                  providers.Provider
	stripeURL, twilioURL            string
	stripeKey, account, twilioToken string
}

// authorize adds the credential for the request's provider. The journal holds none.
func (s services) authorize(r *http.Request) error {
	if strings.HasPrefix(r.URL.String(), s.stripeURL+"/") {
		r.Header.Set("Authorization", "Bearer "+s.stripeKey)
		return nil
	}
	r.SetBasicAuth(s.account, s.twilioToken)
	return nil
}

// serve answers one client's calls on standard input and output, until it leaves.
func serve(ctx context.Context, path string, s services) (err error) {
	j, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	client, err := onceward.New(onceward.Config{
		Journal: j, Providers: []providers.Provider{s.stripe, s.twilio}, Authorize: s.authorize, Reconcile: &onceward.Reconcile{},
	})
	if err != nil {
		return err
	}
	running := make(chan error, 1)
	ctx, stop := context.WithCancel(ctx)
	go func() { running <- client.Run(ctx) }()
	served := newServer(client, s).Run(ctx, &mcp.StdioTransport{})
	stop()
	<-running // it ends with the context's error
	return errors.Join(served, client.Close())
}
