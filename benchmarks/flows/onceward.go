package main

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
)

// oncewardEngine runs flows by a registered function, so Resume would continue the flows after a crash.
type oncewardEngine struct {
	client  *onceward.Client
	flows   *flow.Runner
	journal *sqlite.Journal
	flow    *flow.Func[string, receipt]
}

func openOnceward(_ context.Context, p place) (engine, error) {
	j, err := sqlite.Open(filepath.Join(p.folder, databaseName), sqlite.Options{})
	if err != nil {
		return nil, err
	}
	stripe := providers.Stripe()
	stripe.Hosts = []string{strings.TrimPrefix(p.provider, "http://")}
	e := &oncewardEngine{journal: j}
	e.flow = flow.Define("booking", 1, func(ctx context.Context, name string) (r receipt, err error) {
		for _, step := range steps {
			previous := r
			if r, err = flow.Step(ctx, step, func(ctx context.Context) (receipt, error) {
				return p.call(ctx, name, step, previous, "")
			}); err != nil {
				return r, err
			}
		}
		return r, nil
	})
	e.client, err = onceward.New(onceward.Config{
		Journal: j, Providers: []providers.Provider{stripe}, HTTPClient: p.client,
	})
	if err != nil {
		return nil, errors.Join(err, j.Close())
	}
	e.flows, err = flow.New(e.client, flow.Config{Definitions: []flow.Definition{e.flow}})
	if err != nil {
		return nil, errors.Join(err, e.client.Shutdown(context.Background()), j.Close())
	}
	p.client = e.client.HTTPClient()
	return e, nil
}

func (e *oncewardEngine) run(ctx context.Context, name string) error {
	_, err := e.flow.Run(ctx, e.flows, name, name)
	return err
}

func (e *oncewardEngine) close() error {
	return errors.Join(e.client.Shutdown(context.Background()), e.journal.Close())
}
