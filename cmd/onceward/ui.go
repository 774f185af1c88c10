package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/console"
	"github.com/onceward/onceward/internal/address"
	"github.com/onceward/onceward/internal/shown"
)

// served is the console's address.
type served struct {
	URL string `json:"url" doc:"with a secret in its path: it gives access to the console"`
}

func (s *served) table(t *table) { t.line(s.URL) }

func (c *command) uiCommand() *cobra.Command {
	listen := "127.0.0.1:0"
	cmd := &cobra.Command{
		Use: "ui", Short: "Serve the console on this machine alone, read-only, until it is interrupted", Args: exactly(0, ""),
		Long: "ui serves the console over the journal: to this machine alone, and to look only. Other users of the machine can reach the port as well,\n" +
			"so that the address that is printed has a secret in it, which is another each time.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			host, _, err := net.SplitHostPort(listen)
			if err != nil || !address.IsLoopback(host) {
				return usage("--listen %s: it has to be an address of this machine alone, such as 127.0.0.1:8080; for others, put package console behind a login of your own", shown.Text(listen))
			}
			return c.using(cmd.Context(), access{}, func(s store) error { return c.serve(cmd.Context(), s, listen) })
		},
	}
	cmd.Flags().StringVar(&listen, "listen", listen, "the address; port 0: one that is free")
	return cmd
}

func (c *command) serve(ctx context.Context, s store, listen string) error {
	hour := new(console.Hour)
	page, err := console.New(console.Options{
		Journal: s, Hour: hour, Hosts: []string{"127.0.0.1", "localhost", "::1"}, Title: "Onceward, read-only", Logger: slog.New(slog.NewTextHandler(c.err, nil)),
		Authorize: func(*http.Request, console.Action) (string, error) { return whoever(), nil },
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	secret := rand.Text()
	ctx, end := context.WithCancel(ctx)
	defer end()
	server := &http.Server{
		Handler: behind(secret, page), ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx }, // ends pages that listen
	}
	if err := c.say(&served{"http://" + listener.Addr().String() + "/" + secret + "/"}); err != nil {
		return err
	}
	go func() { _ = hour.Watch(ctx, s, nil) }()
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		end()
		limited, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := server.Shutdown(limited); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		return nil
	}
}

// behind serves a page below an unguessable path, and nothing else.
func behind(secret string, page http.Handler) http.Handler {
	below := http.StripPrefix("/"+secret, page)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if subtle.ConstantTimeCompare([]byte(first), []byte(secret)) != 1 {
			http.NotFound(w, r)
			return
		}
		below.ServeHTTP(w, r)
	})
}
