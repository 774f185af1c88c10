package console_test

import (
	"context"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/console"
	"github.com/onceward/onceward/journal"
)

// adopted is a journal that was adopted twice, and has few operations from each time.
type adopted struct {
	journal.Journal
	lists int
}

func (*adopted) ReadStats(context.Context) (journal.Stats, error) { return journal.Stats{}, nil }

func (a *adopted) List(_ context.Context, f journal.Filter) iter.Seq2[journal.Operation, error] {
	a.lists++
	return func(yield func(journal.Operation, error) bool) {
		handles := []int64{1<<40 + 1, 1<<40 + 2, 2<<40 + 1, 3<<40 + 1, 3<<40 + 2}
		if f.Newest {
			handles = []int64{3<<40 + 2, 3<<40 + 1, 2<<40 + 1, 1<<40 + 2, 1<<40 + 1}
		}
		n := 0
		for _, handle := range handles {
			op := journal.Operation{Handle: handle, Ref: journal.Ref{ID: "invoice"}, Provider: "stripe", State: journal.StateCompleted}
			if handle == 1<<40+2 {
				op.Provider = "adyen"
			}
			if handle <= f.After || f.Before > 0 && handle >= f.Before || f.Provider != "" && f.Provider != op.Provider || f.Limit > 0 && n == f.Limit {
				continue
			}
			if n++; !yield(op, nil) {
				return
			}
		}
	}
}

// A page does not search handles that were left out, as they are after a journal in PostgreSQL was adopted.
func TestListSkipsGaps(t *testing.T) {
	for path, found := range map[string]int{"operations?provider=adyen": 1, "operations?provider=adyen&order=oldest": 1, "operations?provider=stripe": 4, "operations?provider=none": 0} {
		synctest.Test(t, func(t *testing.T) { // a page looks for a tenth of a second
			j := new(adopted)
			page, err := console.New(console.Options{Journal: j, Logger: slog.New(slog.DiscardHandler),
				Authorize: func(*http.Request, console.Action) (string, error) { return "ann", nil }})
			require.NoError(t, err)
			w := httptest.NewRecorder()
			page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/"+path, nil))
			require.Equal(t, http.StatusOK, w.Code)
			assert.Len(t, regexp.MustCompile(`operation\?h=\d+"`).FindAllString(w.Body.String(), -1), found, path)
			assert.NotContains(t, w.Body.String(), `rel="next"`, "it is looked through to its end")
			assert.LessOrEqual(t, j.lists, 20, path)
		})
	}
}
