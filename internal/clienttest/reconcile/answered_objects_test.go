package reconcile_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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

// An operation's account and credential are not recorded if it has neither look-ups nor events.
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

// An object's id is read from the answer where the look-ups have it, rather than from another id field.
func TestObjectWhereLookupsReadIt(t *testing.T) {
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
