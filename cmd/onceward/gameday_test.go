//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"html"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/console"
	"github.com/onceward/onceward/internal/lifeline"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/otelonceward"
	"github.com/onceward/onceward/providers"
)

// gameDay is a day in virtual time on which something goes wrong with an application. Its metrics are scraped each
// minute. An operator uses the console and the command as on a real day.
type gameDay struct {
	t       *testing.T
	path    string // of the journal
	line    *oncetest.Line
	journal *sqlite.Journal
	client  *onceward.Client
	page    http.Handler
	scrapes http.Handler
	stop    context.CancelFunc
	ran     chan error

	minute  int
	series  map[string][]string // values by minute, "_" for a missing one
	alerts  []expected
	ordered int
}

// expected are the alerts that fire at a minute.
type expected struct {
	minute int
	firing []string
}

// plays runs a game day. Then promtool evaluates the alert rules on the metrics that were scraped. Each part of the
// day begins at the same virtual time.
func plays(t *testing.T, parts ...func(d *gameDay)) {
	t.Helper()
	d := &gameDay{path: filepath.Join(t.TempDir(), "payments.db"), series: map[string][]string{}, line: &oncetest.Line{}}
	for _, part := range parts {
		synctest.Test(t, func(t *testing.T) {
			d.t = t
			part(d)
		})
	}
	d.judge(t)
}

// start starts the application, as its operators have set it up: with Run, telemetry and the page.
func (d *gameDay) start() {
	d.t.Helper()
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry))
	require.NoError(d.t, err)
	tables := []providers.Provider{providers.Stripe()}
	telemetry, err := otelonceward.New(otelonceward.WithProviders(tables...), otelonceward.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))))
	require.NoError(d.t, err)
	d.journal, err = sqlite.Open(d.path, sqlite.Options{Committed: telemetry.Committed("payments"), Volatile: true, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(d.t, err)
	d.client, err = onceward.New(onceward.Config{
		Journal: d.journal, Providers: tables, Trace: telemetry.Trace(), HTTPClient: &http.Client{Transport: d.line},
		Logger: slog.New(slog.DiscardHandler), Outcomes: &onceward.Outcomes{Handle: func(context.Context, onceward.Operation) error { return nil }},
	})
	require.NoError(d.t, err)
	_, err = telemetry.Observe("payments", d.journal)
	require.NoError(d.t, err)
	_, err = telemetry.ObserveClient(d.client)
	require.NoError(d.t, err)
	d.scrapes = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	d.page, err = console.New(console.Options{
		Journal: d.journal, Client: d.client, Logger: slog.New(slog.DiscardHandler),
		Authorize: func(*http.Request, console.Action) (string, error) { return "ann", nil },
	})
	require.NoError(d.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	d.stop, d.ran = cancel, make(chan error, 1)
	go func() { d.ran <- d.client.Run(ctx) }()
}

// end ends it, as a deploy does.
func (d *gameDay) end() {
	d.t.Helper()
	d.stop()
	<-d.ran
	_ = d.client.Shutdown(context.Background())
	require.NoError(d.t, d.journal.Close())
}

// orders asks for a charge, as a customer does.
func (d *gameDay) order() (name string, err error) {
	d.ordered++
	name = fmt.Sprintf("order-%d/charge", d.ordered)
	return name, d.ask(name)
}

func (d *gameDay) ask(name string) error {
	ctx, cancel := context.WithTimeout(onceward.WithOperation(context.Background(), name), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, oncetest.ChargeURL, strings.NewReader(oncetest.ChargeForm))
	require.NoError(d.t, err)
	req.Header.Set("Content-Type", oncetest.Form)
	resp, err := d.client.HTTPClient().Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	return err
}

// pass lets minutes pass, and calls meanwhile in each of them, if it isn't nil.
func (d *gameDay) pass(minutes int, meanwhile func()) {
	d.t.Helper()
	for range minutes {
		next := time.Now().Truncate(time.Minute).Add(time.Minute)
		if meanwhile != nil {
			meanwhile()
		}
		oncetest.Pass(time.Until(next))
		d.scrape()
	}
}

// standStill lets minutes pass while the application does not run.
func (d *gameDay) standStill(minutes int) {
	oncetest.Pass(time.Duration(minutes) * time.Minute)
	d.minute += minutes
}

func (d *gameDay) orders(minutes int) { d.pass(minutes, func() { _, _ = d.order() }) }

// scrape reads the application's metrics, as Prometheus does.
func (d *gameDay) scrape() {
	w := httptest.NewRecorder()
	d.scrapes.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "#") || !strings.HasPrefix(line, "onceward_") {
			continue
		}
		cut := strings.LastIndexByte(line, ' ')
		series, value := line[:cut], strings.TrimSpace(line[cut+1:])
		for len(d.series[series]) < d.minute {
			d.series[series] = append(d.series[series], "_")
		}
		d.series[series] = append(d.series[series], value)
	}
	d.minute++
}

// fires states the alerts that must fire now, and no others.
func (d *gameDay) fires(alerts ...string) {
	slices.Sort(alerts)
	d.alerts = append(d.alerts, expected{d.minute - 1, alerts})
}

// judge has promtool check which alerts fire at which minute.
func (d *gameDay) judge(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("ONCEWARD_PROMTOOL") == "required" {
			t.Fatal("there is no promtool; Debian has it in the package prometheus")
		}
		t.Skip("there is no promtool; Debian has it in the package prometheus")
	}
	rules, err := filepath.Abs("../../otelonceward/prometheus/rules.yaml")
	require.NoError(t, err)
	var b strings.Builder
	fmt.Fprintf(&b, "rule_files: [%q]\nevaluation_interval: 1m\ntests:\n  - interval: 1m\n    input_series:\n", rules)
	for _, series := range slices.Sorted(maps.Keys(d.series)) {
		fmt.Fprintf(&b, "      - {series: '%s', values: '%s'}\n", labelled(series), strings.Join(d.series[series], " "))
	}
	b.WriteString("    promql_expr_test:\n")
	for _, e := range d.alerts {
		fmt.Fprintf(&b, "      - expr: 'group by (alertname) (ALERTS{alertstate=\"firing\"})'\n        eval_time: %dm\n        exp_samples:\n", e.minute)
		for _, alert := range e.firing {
			fmt.Fprintf(&b, "          - {labels: '{alertname=\"Onceward%s\"}', value: 1}\n", alert)
		}
	}
	file := filepath.Join(t.TempDir(), "day.yaml")
	require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o600))
	out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", file).CombinedOutput()
	require.NoError(t, err, string(out))
}

// labelled adds the labels that Prometheus adds to a scraped series.
func labelled(series string) string {
	name, labels, found := strings.Cut(series, "{")
	if !found {
		labels = "}"
	}
	if labels != "}" {
		labels = "," + labels
	}
	return name + `{job="shop",instance="shop-1"` + labels
}

// shows is the text on a console page, without its tags.
func (d *gameDay) shows(path string) string {
	d.t.Helper()
	w := httptest.NewRecorder()
	d.page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/"+path, nil))
	require.Equal(d.t, http.StatusOK, w.Code, w.Body.String())
	return strings.Join(strings.Fields(html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(w.Body.String(), " "))), " ")
}

// types runs the command as on a terminal, and answers its questions with answer.
func (d *gameDay) types(answer string, args ...string) said {
	var out, errs bytes.Buffer
	c := &command{in: bufio.NewReader(strings.NewReader(answer + "\n")), asks: true, out: &out, err: &errs, now: time.Now}
	root, _ := c.root()
	root.SetArgs(append([]string{"-j", d.path}, args...))
	err := root.ExecuteContext(context.Background())
	if err != nil {
		fmt.Fprintln(&errs, err)
	}
	return said{out.String(), errs.String(), codeOf(err)}
}

func (d *gameDay) why(name string) string {
	s := d.types("", "why", name)
	require.Equal(d.t, exitDone, s.code, s.err)
	return s.out
}

// until lets minutes pass until the verb why says this about an operation. The next attempt's time is random, so
// the number of minutes differs.
func (d *gameDay) until(name, says string) {
	d.t.Helper()
	for range 15 {
		if strings.Contains(d.why(name), says) {
			return
		}
		d.pass(1, nil)
	}
	require.Contains(d.t, d.why(name), says)
}

func (d *gameDay) state(name string) journal.State {
	op, err := d.journal.Get(context.Background(), journal.Ref{ID: name})
	require.NoError(d.t, err)
	return op.State
}

// runbookOf is the text under the heading that an alert leads to.
func runbookOf(t *testing.T, alert string) string {
	t.Helper()
	return runbook(t, anchorOf(t, alert))
}

func anchorOf(t *testing.T, alert string) string {
	t.Helper()
	rules, err := os.ReadFile("../../otelonceward/prometheus/rules.yaml")
	require.NoError(t, err)
	_, after, found := strings.Cut(string(rules), "alert: Onceward"+alert+"\n")
	require.True(t, found, alert)
	return regexp.MustCompile(`docs/runbook\.md#([a-z-]+)`).FindStringSubmatch(after)[1]
}

// runbook is the text under a runbook heading.
func runbook(t *testing.T, anchor string) string {
	t.Helper()
	book, err := os.ReadFile("../../docs/runbook.md")
	require.NoError(t, err)
	heading := regexp.MustCompile(`(?m)^#+ (.*)\n`)
	all := heading.FindAllStringSubmatchIndex(string(book), -1)
	for i, at := range all {
		if strings.ReplaceAll(strings.ToLower(string(book[at[2]:at[3]])), " ", "-") != anchor {
			continue
		}
		end := len(book)
		if i+1 < len(all) {
			end = all[i+1][0]
		}
		return string(book[at[1]:end])
	}
	t.Fatalf("the runbook has no heading %s", anchor)
	return ""
}

// typed is one of a command line, or several in quotes.
var typed = regexp.MustCompile(`"([^"]*)"|(\S+)`)

// follows runs the commands that the runbook advises for an alert.
func (d *gameDay) follows(alert, ref, answer string) string {
	d.t.Helper()
	return d.commands(anchorOf(d.t, alert), ref, answer)
}

// commands runs every command under a runbook heading, and returns their output. REF and PATH are replaced by
// ref. A command that asks for an answer gets answer.
func (d *gameDay) commands(anchor, ref, answer string) string {
	d.t.Helper()
	block := regexp.MustCompile("(?s)```text\n(.*?)```").FindStringSubmatch(runbook(d.t, anchor))
	require.NotNil(d.t, block, "the runbook gives no command under %s", anchor)
	var all strings.Builder
	for line := range strings.Lines(block[1]) {
		var args []string
		for _, w := range typed.FindAllStringSubmatch(line, -1) {
			args = append(args, strings.NewReplacer("REF", ref, "PATH", ref).Replace(w[1]+w[2]))
		}
		require.Equal(d.t, "onceward", args[0], line)
		s := d.types(answer, args[1:]...)
		require.Contains(d.t, []int{exitDone, exitFindings}, s.code, "%s: %s", line, s.err)
		all.WriteString(s.out + s.err)
	}
	return all.String()
}

// A provider is down for hours. The operator can do nothing, and afterwards everything settles by itself.
func TestGameDayProviderDown(t *testing.T) {
	plays(t, func(d *gameDay) {
		d.start()
		d.orders(5)
		d.fires()
		d.line.Always(oncetest.Refuses())
		first := fmt.Sprintf("order-%d/charge", d.ordered+1)
		d.orders(30)
		d.fires("ProviderDown")
		assert.Contains(d.t, d.shows(""), "30 operations are pending, the first of them for 30 min")
		d.until(first, "attempts at the provider fail, and are made one at a time")
		assert.Contains(d.t, d.follows("ProviderDown", first, ""), "attempts at the provider fail, and are made one at a time")
		d.pass(6*60, nil)
		d.fires("PendingOld", "ProviderDown")
		told := d.follows("PendingOld", first, "")
		assert.Contains(d.t, told, first)
		assert.Contains(d.t, told, "nothing: Run, Resume or the next caller sends it")
		d.line.Always(oncetest.Says(200, oncetest.Paid))
		d.orders(90)
		d.fires()
		assert.Contains(d.t, d.shows(""), "Findings Nothing.")
		for n := range d.ordered {
			assert.Equal(d.t, journal.StateCompleted, d.state(fmt.Sprintf("order-%d/charge", n+1)))
		}
		d.end()
	})
}

// fullDisk is set in the environment for a process whose disk fills up.
const fullDisk = "ONCEWARD_TEST_FULL_DISK"

// Answers are lost, and then the application stands still until the provider has forgotten the keys.
func TestGameDayKeysExpire(t *testing.T) {
	plays(t, func(d *gameDay) {
		d.start()
		d.orders(5)
		d.line.Always(oncetest.Loses())
		name, err := d.order()
		require.ErrorIs(d.t, err, onceward.ErrPending)
		d.pass(1, nil)
		d.until(name, "not before")
		d.end()
		d.standStill(20 * 60)
		d.fires("TelemetryMissing")
		assert.Contains(d.t, d.why(name), "the resend rule allows it, and it is due")
		d.standStill(4*60 + 5) // more than a day: a leap
		assert.Contains(d.t, d.why(name), "the clock has jumped, and nothing is resent until it has run steadily for a while")
		d.line.Always(oncetest.Says(200, oncetest.Paid))
		d.start()
		d.orders(40)
		d.fires("NeedsAttention", "Unknown")
		assert.Equal(d.t, journal.StateUnknown, d.state(name))
		assert.Contains(d.t, d.shows(""), "1 operation may or may not have taken effect")
		told := d.follows("Unknown", name, name)
		assert.Contains(d.t, told, "it is unknown: it may have taken effect, and nothing unknown is sent")
		assert.Contains(d.t, told, "find it at the provider, and resolve it")
		assert.Equal(d.t, journal.StateCompleted, d.state(name))
		d.orders(10)
		d.fires()
		assert.Contains(d.t, d.shows(""), "Findings Nothing.")
		require.ErrorIs(d.t, d.ask(name), onceward.ErrAnswerGone)
		d.end()
	})
}

// The disk fills up while a provider works on a charge, and while customers come and go.
func TestGameDayDiskFull(t *testing.T) {
	if os.Getenv(fullDisk) == "" { // in a separate process: no other file of it may grow either
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestGameDayDiskFull$", "-test.v")
		child.Env = append(os.Environ(), fullDisk+"=1")
		require.NoError(t, lifeline.Tie(child))
		out, err := child.CombinedOutput()
		require.NoError(t, err, string(out))
		if bytes.Contains(out, []byte("--- SKIP")) {
			t.Skip(string(out))
		}
		require.Contains(t, string(out), "--- PASS: TestGameDayDiskFull")
		return
	}
	signal.Ignore(syscall.SIGXFSZ) // the write's own error is wanted
	defer signal.Reset(syscall.SIGXFSZ)
	var room syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &room))
	plays(t, func(d *gameDay) {
		limit := func(to uint64) {
			require.NoError(d.t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: to, Max: room.Max}))
		}
		defer limit(room.Cur)
		d.start()
		d.orders(10)
		d.fires()
		d.line.Then(oncetest.Doing(func() { limit(4 << 10) }, oncetest.Says(200, oncetest.Paid)))
		name, _ := d.order()
		var refused string
		d.pass(15, func() {
			var err error
			sent := len(d.line.Sent())
			refused, err = d.order()
			require.ErrorIs(d.t, err, onceward.ErrJournal)
			require.Len(d.t, d.line.Sent(), sent, "nothing is sent that can't be recorded")
		})
		d.fires("Backlog", "JournalNotRecording")
		assert.Contains(d.t, d.shows(""), "2 records are only in this process's memory, since the journal fails")
		assert.Contains(d.t, d.why(name), "it is being sent, by session")
		assert.Contains(d.t, runbookOf(d.t, "JournalNotRecording"), "(#disk-full)")
		assert.Contains(d.t, runbookOf(d.t, "Backlog"), "**Don't stop it**")
		limit(room.Cur)
		d.orders(10)
		d.fires()
		assert.Contains(d.t, d.commands("disk-full", "", ""), "sound")
		assert.Equal(d.t, journal.StateCompleted, d.state(name))
		require.NoError(d.t, d.ask(refused))
		d.orders(1)
		assert.Contains(d.t, d.shows(""), "Findings Nothing.")
		d.end()
	})
}

// Last night's backup is put back.
func TestGameDayRestored(t *testing.T) {
	plays(t, func(d *gameDay) {
		d.start()
		d.orders(5)
		d.line.Then(oncetest.Loses(), oncetest.Loses(), oncetest.Loses(), oncetest.Loses(), oncetest.Loses(), oncetest.Loses(), oncetest.Loses())
		lost, err := d.order()
		require.ErrorIs(d.t, err, onceward.ErrPending)
		backup := filepath.Join(filepath.Dir(d.path), "backup.db")
		d.commands("backup", backup, "")
		d.orders(5)
		d.fires()
		d.end()
		copied, err := os.ReadFile(backup)
		require.NoError(d.t, err)
		require.NoError(d.t, os.WriteFile(d.path, copied, 0o600))
		for _, suffix := range []string{"-wal", "-shm"} {
			_ = os.Remove(d.path + suffix)
		}
		d.start()
		sent := len(d.line.Sent())
		d.pass(5, func() {
			_, err := d.order()
			require.ErrorIs(d.t, err, onceward.ErrJournalRestored)
		})
		require.Len(d.t, d.line.Sent(), sent, "nothing is sent until it is adopted")
		d.fires("Restored", "JournalNotRecording")
		assert.Contains(d.t, d.shows(""), "The journal was restored or copied")
		assert.Contains(d.t, d.why(lost), "the journal was restored or copied, and sends nothing until it is adopted")
		assert.Contains(d.t, d.shows("operation?h=6"), "never : the journal was restored or copied, and sends nothing until it is adopted. To do: make sure that no other copy is in use, and adopt it.")
		told := d.follows("Restored", "", soleCopy)
		assert.Contains(d.t, told, "RESTORED")
		assert.Contains(d.t, told, "what was sent since is not in it")
		d.orders(10)
		d.fires()
		assert.Equal(d.t, journal.StateCompleted, d.state(lost), "its key is remembered")
		assert.Contains(d.t, d.shows(""), "Findings Nothing.")
		d.end()
	})
}

// A machine's clock jumps back by more than two hours. For that, virtual time begins anew.
func TestGameDayClockBehind(t *testing.T) {
	plays(t, func(d *gameDay) {
		d.start()
		d.orders(150)
		d.end()
	}, func(d *gameDay) {
		d.line.Always(oncetest.Loses())
		d.start()
		name, err := d.order()
		require.ErrorIs(d.t, err, onceward.ErrPending)
		d.pass(20, nil)
		d.fires("ClockBehind", "NeedsAttention")
		assert.Contains(d.t, d.shows(""), "This machine's clock stands 2 h 10 min behind the latest time in the journal")
		assert.Contains(d.t, d.why(name), "the clock may have run ahead when it was first sent")
		assert.Contains(d.t, d.follows("ClockBehind", "", ""), "2 h 10 min behind the journal")
		assert.Contains(d.t, runbookOf(d.t, "ClockBehind"), "`j.ResetClock(ctx, time.Now())`")
		require.NoError(d.t, d.journal.ResetClock(context.Background(), time.Now()))
		d.line.Always(oncetest.Says(200, oncetest.Paid))
		d.orders(10)
		d.fires("NeedsAttention")
		d.pass(150, nil)
		assert.Equal(d.t, journal.StateUnknown, d.state(name), "it was sent by the clock that was set back")
		d.end()
	})
}
