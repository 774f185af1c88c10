package oncetest

import (
	"io"
	"net/http"
	"testing"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// InBox starts a real server that keeps p's contract, and a calling process, on a journal in memory if cfg has none.
func InBox(t *testing.T, p providers.Provider, cfg onceward.Config) (*providertest.Server, *Process) {
	t.Helper()
	srv := Serving(t, p, nil)
	cfg.Providers = []providers.Provider{srv.Provider()}
	cfg.Backoff = Quick
	return srv, Start(t, srv.Client().Transport, cfg)
}

// Serving starts a real server that keeps p's contract. watch, which may be nil, sees each request.
func Serving(t *testing.T, p providers.Provider, watch func(providertest.Request)) *providertest.Server {
	t.Helper()
	srv := providertest.NewUnstartedServer(p, http.HandlerFunc(Pays))
	srv.RetryAfter = -1
	srv.Observe = watch
	srv.Start()
	t.Cleanup(srv.Close)
	return srv
}

// Calling starts a process that calls srv. Empty fields of cfg get defaults: a new SQLite file and a quick policy.
func Calling(t *testing.T, srv *providertest.Server, cfg onceward.Config) *Process {
	t.Helper()
	if cfg.Journal == nil {
		cfg.Journal = OnDisk(t)
	}
	if cfg.Backoff == (backoff.Policy{}) {
		cfg.Backoff = Quick
	}
	cfg.Providers = []providers.Provider{srv.Provider()}
	return Start(t, srv.Client().Transport, cfg)
}

// Charging returns the option for a charge at srv.
func Charging(srv *providertest.Server) Option { return To(http.MethodPost, srv.URL+"/v1/charges") }

// Pays answers everything with [Paid].
func Pays(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, Paid)
}
