package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/address"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/mysql"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/proxy"
)

// endsWithin is the time for running calls after a signal.
const endsWithin = 30 * time.Second

// serve opens the journal and serves the listeners until ctx ends. Then it ends the calls, and closes the journal.
func (s *settings) serve(ctx context.Context, fresh bool, log *slog.Logger) (err error) {
	j, err := s.openJournal(ctx, fresh, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	var upstreams []proxy.Upstream
	for i := range s.Listen {
		upstreams = append(upstreams, s.Listen[i].upstream)
	}
	client, err := onceward.New(onceward.Config{
		Journal: j, Providers: s.providers, Secret: s.secret, Authorize: proxy.Authorize(upstreams...),
		HTTPClient: &http.Client{Transport: proxy.Exchange(nil, upstreams...)}, Reconcile: &onceward.Reconcile{}, Logger: log,
	})
	if err != nil {
		return err
	}
	s.warnOfHosts(log)
	servers, failed, err := s.start(client, log)
	background := make(chan error, 1)
	if err == nil {
		go func() { background <- client.Run(context.Background()) }() // until Shutdown
		select {
		case err = <-failed:
		case err = <-background:
			err = errors.Join(errors.New("the work in the background has ended"), err)
		case <-ctx.Done():
			log.Info("ending")
		}
	}
	return errors.Join(err, end(client, servers))
}

// keptJournal is a journal that has to be closed.
type keptJournal interface {
	journal.Journal
	io.Closer
}

// openJournal opens the journal. A missing one is made only by --new: its names would be free again.
func (s *settings) openJournal(ctx context.Context, fresh bool, log *slog.Logger) (keptJournal, error) {
	if s.database == "" {
		return openFile(s.Journal, fresh, log)
	}
	j, err := s.openDatabase(ctx, fresh, log)
	if errors.Is(err, journal.ErrVersion) && !fresh {
		return nil, fmt.Errorf("%w. Add --new once, which makes or migrates the journal. If the journal is lost, restore its backup first", err)
	}
	return j, err
}

func (s *settings) openDatabase(ctx context.Context, fresh bool, log *slog.Logger) (keptJournal, error) {
	var witness journal.Witness
	if s.Witness != "" {
		witness = journal.WitnessFile(s.Witness)
	}
	if address.Of(s.database) == address.PostgreSQL {
		return postgres.Open(ctx, s.database, postgres.Options{Deployment: s.Deployment, Schema: s.Schema, Witness: witness, Migrate: fresh, Logger: log})
	}
	dsn, err := address.DSN(s.database)
	if err != nil {
		return nil, fmt.Errorf("the address of the journal %w", err)
	}
	return mysql.Open(ctx, dsn, mysql.Options{Deployment: s.Deployment, Schema: s.Schema, Witness: witness, Migrate: fresh, Logger: log})
}

func openFile(path string, fresh bool, log *slog.Logger) (*sqlite.Journal, error) {
	if _, err := os.Lstat(path); fresh && err == nil {
		return nil, fmt.Errorf("journal %s: it exists already: leave out --new", path)
	}
	j, err := sqlite.Open(path, sqlite.Options{Existing: !fresh, Logger: log})
	if errors.Is(err, fs.ErrNotExist) && !fresh {
		return nil, fmt.Errorf("journal %s: there is none: add --new the first time. If the journal is lost, restore its backup first", path)
	}
	return j, err
}

// start serves each listener. failed gets the error of one that ends by itself.
func (s *settings) start(client *onceward.Client, log *slog.Logger) (servers []*http.Server, failed chan error, err error) {
	failed = make(chan error, len(s.Listen))
	for i := range s.Listen {
		l := &s.Listen[i]
		handler, err := proxy.New(client, l.upstream)
		if err != nil {
			return servers, failed, fmt.Errorf("listen[%d]: %w", i, err)
		}
		at, err := l.listen()
		if err != nil {
			return servers, failed, fmt.Errorf("listen[%d]: %w", i, err)
		}
		server := &http.Server{
			Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
			ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		}
		servers = append(servers, server)
		log.Info("serving", "at", at.Addr().String(), "upstream", l.upstream.URL.String(), "scope", l.Scope)
		go func() {
			if l.Certificate != "" {
				failed <- server.ServeTLS(at, l.Certificate, l.Key)
			} else {
				failed <- server.Serve(at)
			}
		}()
	}
	return servers, failed, nil
}

// listen opens a listener's socket or address. The socket is for its owner and its group.
func (l *listener) listen() (net.Listener, error) {
	if l.Socket == "" {
		host, _, err := net.SplitHostPort(l.Addr)
		if err != nil {
			return nil, fmt.Errorf("addr: %w", err)
		}
		if l.Certificate == "" && !address.IsLoopback(host) {
			return nil, errors.New(`the field "addr" is reached from other machines, which would send credentials unencrypted: give "certificate" and "key", or an address of the loopback interface`)
		}
		return net.Listen("tcp", l.Addr)
	}
	if held, err := net.Dial("unix", l.Socket); err == nil {
		held.Close()
		return nil, fmt.Errorf("socket %s: another process serves it", l.Socket)
	}
	if info, err := os.Lstat(l.Socket); err == nil && info.Mode().Type() == fs.ModeSocket { // of a process that was killed
		if err := os.Remove(l.Socket); err != nil {
			return nil, err
		}
	}
	return listenForGroup(l.Socket)
}

// warnOfHosts logs a table's hosts that no listener leads to. An SDK calls them past the proxy.
func (s *settings) warnOfHosts(log *slog.Logger) {
	for _, p := range s.providers {
		past := slices.DeleteFunc(slices.Clone(p.Hosts), func(host string) bool {
			return slices.ContainsFunc(s.Listen, func(l listener) bool { return strings.EqualFold(l.upstream.URL.Host, host) })
		})
		if len(past) > 0 {
			log.Warn("no listener leads to these hosts of the provider: calls to them go past the proxy", "provider", p.Name, "hosts", past)
		}
	}
}

// end lets calls end. Both begin at once, since a call may wait for the client.
func end(client *onceward.Client, servers []*http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), endsWithin)
	defer cancel()
	ended := make(chan error, len(servers))
	for _, server := range servers {
		go func() { ended <- server.Shutdown(ctx) }()
	}
	err := client.Shutdown(ctx)
	for range servers {
		err = errors.Join(err, <-ended)
	}
	return err
}
