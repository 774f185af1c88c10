package onceward_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/providers/providertest"
)

// located answers as an API does that says only where its object is.
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

// An object that an operation's own answer showed is nobody else's, wherever in the answer its
// id stands: an operation that looks the same has none.
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
		trap(t, row.name, func(t *testing.T) {
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
			require.NoError(t, l.asks("invoice-1", "/transfers", text).Err)
			assert.Equal(t, "transfer obj_1", l.stands("invoice-1").Object)
			srv.Script(providertest.DropBefore())
			require.ErrorIs(t, l.asks("invoice-2", "/transfers", text).Err, onceward.ErrOutcomeUnknown)
			op, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-2"})
			require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
			assert.Equal(t, onceward.StateUnknown, op.State)
			assert.Empty(t, op.Object)
			l.truly()
		})
	}
}
