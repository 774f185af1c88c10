package console_test

import (
	"context"
	"fmt"
	"html"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/console"
	"github.com/onceward/onceward/journal"
)

// million is a journal that makes up a million operations as they are read. It selects by an index like a store,
// counts its calls and rows, and takes ten microseconds for a row.
type million struct {
	journal.Journal
	state    func(handle int64) journal.State
	provider func(handle int64) string
	late     int64 // the first operation's handle, if it is not 1
	rows     int
	lists    int
	gets     int
	begun    time.Time
}

const many = 1_000_000

func (m *million) operation(handle int64) journal.Operation {
	op := journal.Operation{
		Handle: handle, Ref: journal.Ref{Scope: fmt.Sprint("tenant-", handle%3), ID: fmt.Sprint("invoice-", handle)}, Naming: journal.Named,
		State: m.state(handle), Provider: m.provider(handle), CreatedAt: m.begun.Add(time.Duration(handle) * time.Millisecond), MayHaveRun: true,
	}
	if handle == m.late {
		op.CreatedAt = m.begun
	}
	return op
}

func (m *million) List(_ context.Context, f journal.Filter) iter.Seq2[journal.Operation, error] {
	m.lists++
	return func(yield func(journal.Operation, error) bool) {
		first, last := max(f.After+1, 1), int64(many)
		if f.Before > 0 {
			last = min(last, f.Before-1)
		}
		for n, at := 0, first; at <= last && (f.Limit == 0 || n < f.Limit); at++ {
			handle := at
			if f.Newest {
				handle = last - (at - first)
			}
			state := m.state(handle)
			if len(f.States) > 0 && f.States[0] != state || !f.NeedsAttention.IsZero() && state != journal.StateUnknown || f.Undelivered || f.Provider != "" && f.Provider != m.provider(handle) {
				continue // by an index
			}
			op := m.operation(handle)
			if f.Scope != nil && *f.Scope != op.Scope {
				continue
			}
			time.Sleep(10 * time.Microsecond)
			m.rows++
			if n++; !yield(op, nil) {
				return
			}
		}
	}
}

func (m *million) Get(_ context.Context, ref journal.Ref) (op journal.Operation, err error) {
	m.gets++
	var handle int64
	if _, err := fmt.Sscanf(ref.ID, "invoice-%d", &handle); err != nil {
		return op, journal.ErrNotFound
	}
	return m.operation(handle), nil
}

func (m *million) ReadStats(context.Context) (journal.Stats, error) {
	return journal.Stats{Begun: many, Pending: 1, OldestPending: m.begun, Last: m.begun}, nil
}

// A page reads no more rows than it shows, or than a tenth of a second takes, however many the journal has. It asks
// the journal a bounded number of times.
func TestRowsOfAPage(t *testing.T) {
	always := func(s journal.State) func(int64) journal.State { return func(int64) journal.State { return s } }
	seldom := func(handle int64) journal.State {
		if handle%100_000 == 0 {
			return journal.StateUnknown
		}
		return journal.StateCompleted
	}
	stripe := func(int64) string { return "stripe" }
	for name, m := range map[string]*million{
		"mostly completed": {state: seldom, provider: stripe}, "all pending": {state: always(journal.StatePending), provider: stripe},
		"all unknown": {state: always(journal.StateUnknown), provider: stripe},
		"two providers": {state: seldom, provider: func(handle int64) string {
			if handle == 3 || handle == 999_998 {
				return "adyen"
			}
			return "stripe"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m.begun = time.Now().Add(-many * time.Millisecond)
				page, err := console.New(console.Options{Journal: m, Logger: slog.New(slog.DiscardHandler),
					Authorize: func(*http.Request, console.Action) (string, error) { return "ann", nil }})
				require.NoError(t, err)
				get := func(path string) string {
					m.rows, m.lists, m.gets = 0, 0, 0
					w := httptest.NewRecorder()
					page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/"+path, nil))
					require.Contains(t, []int{http.StatusOK, http.StatusSeeOther}, w.Code, path)
					return w.Body.String()
				}
				const tenth = 10_001 // rows in a tenth of a second
				for path, most := range map[string]struct{ rows, lists int }{
					"": {2000 + 500, 2}, "operation?h=777777": {1, 1}, "find?name=invoice-777777&scope=tenant-0": {0, 0},
					"operations": {51, 1}, "operations?order=oldest": {51, 1}, "operations?at=500000": {51, 1},
					"operations?state=pending": {51, 1}, "operations?state=unknown&order=oldest": {51, 1}, "operations?show=attention": {51, 1}, "operations?show=undelivered": {0, 1},
					"operations?state=completed": {tenth, 1}, "operations?state=pending&scope=none": {tenth, 1},
					"operations?older=10m": {tenth, 1}, "operations?older=10m&order=oldest": {51, 1},
					"operations?scope=tenant-1": {2 + 51, 2 + 1}, "operations?scope=tenant-1&order=oldest": {2 + 51, 2 + 1},
					"operations?scope=none": {2, 2 + many/20_000}, "operations?provider=adyen": {2 + 51, 2 + many/20_000}, "operations?provider=square": {2, 2 + many/20_000},
				} {
					get(path)
					assert.LessOrEqual(t, m.rows, most.rows, path)
					assert.LessOrEqual(t, m.lists, most.lists, path)
					assert.LessOrEqual(t, m.gets, 1, path)
				}
			})
		})
	}
}

// Processes on PostgreSQL take handles in blocks, so an old operation may have a late handle. A list of old operations
// has that operation too.
func TestAnOldOperationWithALateHandleIsListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &million{begun: time.Now().Add(-many * time.Millisecond), late: many - 500,
			state: func(int64) journal.State { return journal.StatePending }, provider: func(int64) string { return "stripe" }}
		page, err := console.New(console.Options{Journal: m, Logger: slog.New(slog.DiscardHandler),
			Authorize: func(*http.Request, console.Action) (string, error) { return "ann", nil }})
		require.NoError(t, err)
		w := httptest.NewRecorder()
		page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/operations?older=10m", nil))
		assert.Contains(t, w.Body.String(), "invoice-999500")
	})
}

// The links from page to page list each matching row exactly once, in either order. A page may end before it has
// searched all rows.
func TestEveryRowIsListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &million{begun: time.Now(), state: func(handle int64) journal.State {
			if handle%9_973 == 0 {
				return journal.StateCancelled
			}
			return journal.StatePending
		}, provider: func(handle int64) string {
			if handle%7_001 == 0 || handle == 1 || handle == many {
				return "adyen"
			}
			return "stripe"
		}}
		page, err := console.New(console.Options{Journal: m, Logger: slog.New(slog.DiscardHandler),
			Authorize: func(*http.Request, console.Action) (string, error) { return "ann", nil }})
		require.NoError(t, err)
		for path, want := range map[string]int{
			"provider=adyen": many/7_001 + 2, "provider=adyen&order=oldest": many/7_001 + 2, "state=pending&provider=adyen": many/7_001 + 2, "state=cancelled&provider=stripe": many / 9_973,
		} {
			found := map[string]int{}
			pages := 0
			for link := "operations?" + path; link != ""; pages++ {
				require.Less(t, pages, 300, path)
				w := httptest.NewRecorder()
				page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/"+link, nil))
				require.Equal(t, http.StatusOK, w.Code, link)
				for _, row := range regexp.MustCompile(`operation\?h=(\d+)"`).FindAllStringSubmatch(w.Body.String(), -1) {
					found[row[1]]++
				}
				link = ""
				if next := regexp.MustCompile(`rel="next" href="([^"]*)"`).FindStringSubmatch(w.Body.String()); next != nil {
					link = html.UnescapeString(next[1])
				}
			}
			assert.Len(t, found, want, path)
			for handle, n := range found {
				assert.Equal(t, 1, n, "%s: %s", path, handle)
			}
			assert.Greater(t, pages, 1)
		}
	})
}
