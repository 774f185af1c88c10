package reconcile_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// located answers as an API does whose answer names the object only in a Location.
func located() http.Handler {
	objects := providertest.Objects("obj_")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inner := httptest.NewRecorder()
		objects.ServeHTTP(inner, r)
		_, id, _ := strings.Cut(inner.Body.String(), `"id":"`)
		id, _, _ = strings.Cut(id, `"`)
		w.Header().Set("Location", "https://api.example.com/transfers/"+id)
		w.WriteHeader(http.StatusCreated)
	})
}

// An object that an operation's own answer showed belongs to it, wherever the answer has the id. A similar operation
// has no object.
func TestAnsweredObjectsAreTaken(t *testing.T) {
	for _, row := range []struct {
		name     string
		business http.Handler
		id       string // where the table says that the answer has it
	}{
		{"at the top", providertest.Objects("obj_"), ""},
		{"within another", providertest.ObjectsIn("transfer", "obj_"), "transfer.id"},
		{"in a Location", located(), ""},
	} {
		virtual(t, row.name, func(t *testing.T) {
			p := bank()
			for i := range p.Endpoints {
				p.Endpoints[i].ObjectID = row.id
			}
			srv := providertest.NewUnstartedServerInMemory(p, row.business)
			srv.RetryAfter = -1
			srv.Account = func(r providertest.Request) string { return r.Header.Get("Authorization") }
			srv.StartTLS()
			t.Cleanup(srv.Close)
			l := another(t, srv, onceward.Config{})

			const text = `{"amount":10,"external_id":"order-1"}`
			require.NoError(t, l.Asks("invoice-1", "/transfers", text).Err)
			assert.Equal(t, "transfer obj_1", l.Stands("invoice-1").Object)
			srv.Script(providertest.DropBefore())
			require.ErrorIs(t, l.Asks("invoice-2", "/transfers", text).Err, onceward.ErrOutcomeUnknown)
			op, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-2"})
			require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
			assert.Equal(t, onceward.StateUnknown, op.State)
			assert.Empty(t, op.Object)
			l.Truly()
		})
	}
}

// A later payment that is listed shows that the look-up would have seen the other. That holds even if the provider
// could not name the account then, and for any number of payments.
func TestCanariesOfOneCredential(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name                    string
		unnamed, control, looks bool // when the account of the credential can't be requested
		controls                int
	}{
		{name: "its account is known", controls: 1},
		{name: "it is not when it is sent", unnamed: true, controls: 1},
		{name: "it is not when either is sent", unnamed: true, control: true, controls: 1},
		{name: "it is not when it is looked for", looks: true, controls: 1},
		{name: "many came through", controls: 70},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := atBank(t, onceward.Config{}, proving)
			nobodyKnows := func(hides bool) {
				l.Fakes(func(r *http.Request) *http.Response {
					if hides && r.URL.Path == "/me" {
						return answers(http.StatusServiceUnavailable, "")
					}
					return nil
				})
				pass(time.Hour) // the account is requested again
			}
			nobodyKnows(row.unnamed)
			l.Box.Script(providertest.DropBefore())
			require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
			nobodyKnows(row.control)
			for i := range row.controls {
				require.NoError(t, l.Pays(fmt.Sprint("control-", i)).Err)
			}
			require.NoError(t, l.Asks("another kind", "/transfers", order1).Err)
			nobodyKnows(row.looks)
			l.Runs(24 * time.Hour)
			assert.Equal(t, onceward.StateCancelled, l.Stands("invoice-1").State, latest(l.Stands("invoice-1")).Why)
			l.Truly()
		})
	}
}

// A later payment that the look-up does not show either proves nothing about the other.
func TestCanaryThatIsNotListed(t *testing.T) {
	t.Parallel()
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, proving)
		l.Box.Script(providertest.DropBefore())
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		pass(3 * time.Minute)
		require.NoError(t, l.Pays("control").Err)
		l.Fakes(func(r *http.Request) *http.Response {
			if r.Method == http.MethodGet && r.URL.Path == "/payments" {
				return answers(200, `{"data":[],"has_more":false}`)
			}
			return nil
		})
		l.Runs(9 * 24 * time.Hour)
		assert.Equal(t, onceward.StateUnknown, l.Stands("invoice-1").State)
		require.NotEmpty(t, l.Told())
		assert.Contains(t, l.Told()[0].Missing, "canary")
	})
}

// The account and credential of an operation are not recorded if it has neither look-ups nor events.
func TestNothingIsKeptWithoutALookup(t *testing.T) {
	for name, row := range map[string]struct {
		adjust func(*providers.Endpoint)
		kept   bool
	}{
		"nothing looks": {func(*providers.Endpoint) {}, false},
		"it is looked for": {func(e *providers.Endpoint) {
			e.Pattern, e.Object, e.Lookups = "POST /orders", "order", bank().Endpoints[0].Lookups
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, &line{}, onceward.Config{Reconcile: plain(), Providers: []providers.Provider{own(row.adjust)}})
			require.NoError(t, p.Ask(named(t, invoice), to("POST", ownURL), bearer("a")).Err)
			op := p.Recorded(onceward.Ref{ID: invoice})
			assert.NotEmpty(t, op.Credential, "another attempt goes out under no other")
			assert.Equal(t, row.kept, op.Account != "")
		})
	}
}

// A Location names an object if the answer created one and the path has a name.
func TestObjectInALocation(t *testing.T) {
	for _, row := range []struct {
		name   string
		status int
		at     []string
		object string
	}{
		{"of a created object", 201, []string{"/transfers/tr-1"}, "transfer tr-1"},
		{"of something else", 200, []string{"/transfers/tr-1"}, ""},
		{"without a path", 201, []string{"https://api.example.com/"}, ""},
		{"that can't be read", 201, []string{"%zz"}, ""},
		{"one of two", 201, []string{"/transfers/tr-1", "/transfers/tr-2"}, ""},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := atBank(t, onceward.Config{})
			l.Fakes(func(r *http.Request) *http.Response {
				if r.Method != http.MethodPost {
					return nil
				}
				resp := answers(row.status, "{}")
				resp.Header["Location"] = row.at
				return resp
			})
			require.NoError(t, l.Asks("invoice-1", "/transfers", order1).Err)
			assert.Equal(t, row.object, l.Stands("invoice-1").Object)
		})
	}
}

// The id of an object is read from the answer where the look-ups have it, rather than from another id field.
func TestObjectWhereLookUpsReadIt(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, func(p *providers.Provider) { p.Endpoints[1].Lookups[0].ID = "data.number" })
		l.Fakes(func(r *http.Request) *http.Response {
			if r.Method != http.MethodPost {
				return nil
			}
			return answers(http.StatusOK, `{"id":"request-1","number":"tr-1"}`)
		})
		require.NoError(t, l.Asks("invoice-1", "/transfers", order1).Err)
		assert.Equal(t, "transfer tr-1", l.Stands("invoice-1").Object)
	})
}

// An operation that was given up without a canary is looked up again once there is one, but only once in a process. A
// payment whose answer shows no object is no canary.
func TestCanaryWithoutAnObject(t *testing.T) {
	t.Parallel()
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, proving)
		l.Box.Script(providertest.DropBefore())
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		l.Runs(9 * 24 * time.Hour)
		require.NotEmpty(t, l.Stands("invoice-1").Attention)
		l.Fakes(func(r *http.Request) *http.Response {
			if r.Method == http.MethodPost {
				return answers(http.StatusOK, "{}")
			}
			return nil
		})
		require.NoError(t, l.Pays("without").Err)
		looks := l.Stands("invoice-1").Looks
		l.Runs(time.Hour)
		assert.Equal(t, looks, l.Stands("invoice-1").Looks)
		l.Fakes(func(*http.Request) *http.Response { return nil })
		require.NoError(t, l.Pays("control").Err)
		l.Runs(24 * time.Hour)
		assert.Equal(t, onceward.StateCancelled, l.Stands("invoice-1").State, latest(l.Stands("invoice-1")).Why)
	})
}

// A look-up requests one canary, however many it does not list.
func TestCanaryCostsOneRequest(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, proving)
		l.Box.Script(providertest.DropBefore())
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		pass(3 * time.Minute)
		for i := range 3 {
			require.NoError(t, l.Pays(fmt.Sprint("control-", i)).Err)
		}
		read := 0
		l.Fakes(func(r *http.Request) *http.Response {
			if r.Method == http.MethodGet && r.URL.Path == "/payments" {
				read++
				return answers(200, `{"data":[],"has_more":false}`)
			}
			return nil
		})
		_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		assert.Equal(t, 2, read, "for the payment, and for a control")
	})
}

// An operation that was given up without a canary is not looked up again by a table that proves no absence.
func TestCanaryIfNothingIsProven(t *testing.T) {
	t.Parallel()
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, proving)
		l.Box.Script(providertest.DropBefore())
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		l.Runs(9 * 24 * time.Hour)
		looks := l.Stands("invoice-1").Looks
		next := another(t, l.Box, onceward.Config{Journal: l.Journal.Store}, func(p *providers.Provider) { p.Endpoints[0].Lookups[0].Absent = providers.Absence{} })
		require.NoError(t, next.Pays("control").Err)
		next.Runs(time.Hour)
		assert.Equal(t, looks, l.Stands("invoice-1").Looks)
	})
}
