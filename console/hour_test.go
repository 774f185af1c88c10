package console_test

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/console"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/journal"
)

// The last hour's charts have a bar for each minute that was noted, and none for the others.
func TestHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &counted{}
		hour := &console.Hour{}
		page, err := console.New(console.Options{Journal: m, Hour: hour, Logger: slog.New(slog.DiscardHandler),
			Authorize: func(*http.Request, console.Action) (string, error) { return "ann", nil }})
		require.NoError(t, err)
		charts := func() map[string]string {
			w := httptest.NewRecorder()
			page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
			require.Equal(t, http.StatusOK, w.Code)
			all := map[string]string{}
			for _, c := range regexp.MustCompile(`(?s)<figcaption>(.*?) <span class="quiet">(.*?)</span></figcaption>(<svg.*?</svg>)`).FindAllStringSubmatch(w.Body.String(), -1) {
				all[c[1]] = fmt.Sprint(c[2], "; ", strings.Count(c[3], "<rect"))
			}
			return all
		}
		assert.Equal(t, map[string]string{"Without an outcome": "at most 0, 0 last; 1", "Due to be sent": "at most 0, 0 last; 1"}, charts(), "as far as somebody looked")

		ctx, stop := context.WithCancel(t.Context())
		watched := make(chan error, 1)
		m.stands(1200, 0, false)
		go func() { watched <- hour.Watch(ctx, m, nil) }()
		oncetest.Pass(10 * time.Minute)
		m.stands(7, 3, false)
		hour.Committed(4, 2*time.Millisecond)
		hour.Committed(1, 90*time.Millisecond)
		oncetest.Pass(5 * time.Minute)
		hour.Committed(1, 5*time.Millisecond)
		assert.Equal(t, map[string]string{"Without an outcome": "at most 1\u202f200, 7 last; 16", "Due to be sent": "at most 3, 3 last; 16",
			"Slowest commit": "at most 90 ms, 5 ms last; 2"}, charts())

		m.stands(7, 3, true)
		oncetest.Pass(20 * time.Minute)
		m.stands(7, 3, false)
		oncetest.Pass(35 * time.Minute)
		hour.Note(time.Now().Add(-time.Hour), journal.Stats{Pending: 5000}, 0)
		hour.Note(time.Now().Add(-20*time.Minute), journal.Stats{Pending: 50}, 0)
		assert.Equal(t, map[string]string{"Without an outcome": "at most 50, 7 last; 41", "Due to be sent": "at most 3, 3 last; 41",
			"Slowest commit": "at most 5 ms, 5 ms last; 1"}, charts(), "an hour has sixty minutes, and nothing is known of twenty")
		stop()
		require.ErrorIs(t, <-watched, context.Canceled)
		oncetest.Pass(2 * time.Hour)
		assert.Equal(t, map[string]string{"Without an outcome": "at most 7, 7 last; 1", "Due to be sent": "at most 3, 3 last; 1"}, charts())
	})
}

// Notes from a clock that ran ahead do not hide the notes that follow after it was set right.
func TestHourSurvivesAClockThatRanAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hour := &console.Hour{}
		page, err := console.New(console.Options{Journal: &counted{}, Hour: hour, Logger: slog.New(slog.DiscardHandler),
			Authorize: func(*http.Request, console.Action) (string, error) { return "ann", nil }})
		require.NoError(t, err)
		for n := range 60 {
			hour.Note(time.Now().Add(24*time.Hour+time.Duration(n)*time.Minute), journal.Stats{Pending: 9000}, 0)
		}
		hour.Note(time.Unix(-90, 0), journal.Stats{Pending: 9000}, 0)
		hour.Note(time.Now().Add(-time.Minute), journal.Stats{Pending: 3}, 0)
		hour.Committed(1, time.Millisecond)
		w := httptest.NewRecorder()
		page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		require.Equal(t, http.StatusOK, w.Code)
		assert.Contains(t, w.Body.String(), "at most 3, 0 last")
		assert.Contains(t, w.Body.String(), "at most 1 ms, 1 ms last")
	})
}

// counted is a journal that has nothing but counts.
type counted struct {
	journal.Journal
	mu           sync.Mutex
	pending, due int64
	fails        bool
}

// stands sets the journal's counts, and whether reading them fails.
func (c *counted) stands(pending, due int64, fails bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending, c.due, c.fails = pending, due, fails
}

func (c *counted) List(context.Context, journal.Filter) iter.Seq2[journal.Operation, error] {
	return func(func(journal.Operation, error) bool) {}
}

func (c *counted) ReadStats(context.Context) (journal.Stats, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fails {
		return journal.Stats{}, journal.ErrClosed
	}
	return journal.Stats{Pending: c.pending, Due: c.due}, nil
}
