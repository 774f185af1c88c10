//go:build unix

package browsertest

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	cdpage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/console"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/planted"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
)

// site is a console over a planted journal, under a prefix.
type site struct {
	url     string
	journal *sqlite.Journal
}

func open(t *testing.T) *site {
	t.Helper()
	hour := hourOf(time.Now())
	j, err := sqlite.Open(filepath.Join(t.TempDir(), "j.db"), sqlite.Options{Volatile: true, Committed: hour.Committed})
	require.NoError(t, err)
	_, err = planted.Plant(t.Context(), j, time.Now())
	require.NoError(t, err)
	require.NoError(t, planted.PlantReceipts(t.Context(), j, time.Now().Add(-time.Hour), 7*24*time.Hour))
	client, err := onceward.New(onceward.Config{Journal: j, Providers: []providers.Provider{providers.Stripe()}})
	require.NoError(t, err)
	h, err := console.New(console.Options{
		Journal: j, Client: client, Hour: hour, Logger: slog.New(slog.DiscardHandler),
		Actions:   []console.Action{console.Reveal, console.Resolve, console.Cancel, console.RetryFlow, console.GiveUp, console.ResolveReceipt},
		Authorize: func(*http.Request, console.Action) (string, error) { return "ann", nil },
	})
	require.NoError(t, err)
	server := httptest.NewServer(http.StripPrefix("/admin/onceward", h))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		require.NoError(t, client.Shutdown(context.Background()))
		require.NoError(t, j.Close())
	})
	return &site{server.URL + "/admin/onceward/", j}
}

// hourOf is the hour before now. A provider was down for a while, and for some minutes nothing was noted.
func hourOf(now time.Time) *console.Hour {
	hour := new(console.Hour)
	for ago := 59; ago > 0; ago-- {
		s := journal.Stats{InFlight: 2, Pending: int64(max(0, 20-(ago-25)*(ago-25)/8))}
		s.Due = s.Pending / 3
		if ago < 35 || ago > 40 {
			hour.Note(now.Add(-time.Duration(ago)*time.Minute), s, max(0, s.Pending-15))
		}
	}
	return hour
}

func (s *site) operation(t *testing.T, id string) journal.Operation {
	t.Helper()
	op, err := s.journal.Get(t.Context(), journal.Ref{ID: id})
	require.NoError(t, err)
	return op
}

func (s *site) page(t *testing.T, id string) string {
	return fmt.Sprintf("operation?h=%d", s.operation(t, id).Handle)
}

// browser is a tab that collects the reports of its policy and its JavaScript console.
type browser struct {
	context.Context
	mu      sync.Mutex
	reports []string
}

func (b *browser) report(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reports = append(b.reports, fmt.Sprintf(format, args...))
}

// watched reports each violation of the page's policy, from before its first script.
const watched = `document.addEventListener("securitypolicyviolation", e => console.error("policy: " + e.violatedDirective + " " + e.blockedURI + " " + e.sample));`

// group ends the browser together with its test. Debian's command is a script, and without a process group its
// browser would go on.
func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// slow is the time that a browser on a busy machine may take for all pages of a test.
const slow = 10 * time.Minute

// browse starts a browser. Any report of it fails the test.
func browse(t *testing.T) *browser {
	t.Helper()
	named := os.Getenv("ONCEWARD_BROWSER")
	path := ""
	for _, name := range []string{named, "chromium-headless-shell", "chromium", "headless-shell", "google-chrome"} {
		if found, err := exec.LookPath(name); name != "" && name != "required" && err == nil {
			path = found
			break
		}
	}
	if path == "" {
		if named != "" {
			t.Fatal("ONCEWARD_BROWSER says that there is a browser, and there is none: apt-get install chromium-headless-shell")
		}
		t.Skip("there is no browser: apt-get install chromium-headless-shell")
	}
	allocator, end := chromedp.NewExecAllocator(t.Context(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1100, 900), chromedp.ModifyCmdFunc(group), chromedp.WSURLReadTimeout(slow))...)
	t.Cleanup(end)
	tab, done := chromedp.NewContext(allocator)
	t.Cleanup(done)
	limited, stop := context.WithTimeout(tab, slow)
	t.Cleanup(stop)
	b := &browser{Context: limited}
	chromedp.ListenTarget(limited, func(event any) {
		switch event := event.(type) {
		case *runtime.EventConsoleAPICalled:
			if event.Type == runtime.APITypeError || event.Type == runtime.APITypeWarning {
				for _, a := range event.Args {
					b.report("console: %s", a.Value)
				}
			}
		case *runtime.EventExceptionThrown:
			b.report("exception: %s", event.ExceptionDetails.Error())
		case *log.EventEntryAdded:
			if !strings.HasSuffix(event.Entry.URL, "/favicon.ico") {
				b.report("%s: %s %s", event.Entry.Source, event.Entry.Text, event.Entry.URL)
			}
		}
	})
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		assert.Empty(t, b.reports)
	})
	b.run(t, log.Enable(), runtime.Enable(), chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := cdpage.AddScriptToEvaluateOnNewDocument(watched).Do(ctx)
		return err
	}))
	return b
}

func (b *browser) run(t *testing.T, actions ...chromedp.Action) {
	t.Helper()
	require.NoError(t, chromedp.Run(b, actions...))
}

func (b *browser) eval(t *testing.T, script string) (out string) {
	t.Helper()
	b.run(t, chromedp.Evaluate("String("+script+")", &out))
	return out
}

func (b *browser) scheme(name string) chromedp.Action {
	return emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}})
}

// shots are where screenshots are kept, "" for nowhere.
var shots = os.Getenv("ONCEWARD_SCREENSHOTS")

// wider lists the elements that stick out of the window. Boxes that scroll by themselves may hold wider ones.
const wider = `(() => {
	const wide = [];
	for (const e of document.querySelectorAll("body *")) {
		if (e.closest(".wide") && !e.matches(".wide") || e.matches(".skip")) continue;
		if (e.getBoundingClientRect().right > document.documentElement.clientWidth + 1) wide.push(e.tagName + "." + e.className);
	}
	return (document.documentElement.scrollWidth > document.documentElement.clientWidth ? "the page; " : "") + wide.join(" ");
})()`

// faint lists the texts that don't stand out from their background by 4.5 to 1
// (https://www.w3.org/TR/WCAG22/#contrast-minimum).
const faint = `(() => {
	const parts = c => c.match(/[\d.]+/g).map(Number);
	const light = c => { const [r, g, b] = parts(c).slice(0, 3).map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
	const ground = e => { for (; e; e = e.parentElement) { const c = parts(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return getComputedStyle(e).backgroundColor; } return "rgb(255, 255, 255)"; };
	const found = new Set();
	for (const e of document.querySelectorAll("body *:not(svg *)")) {
		if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) || e.matches("option, title, script")) continue;
		const one = light(getComputedStyle(e).color), other = light(ground(e));
		if ((Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05) < 4.5) found.add(e.tagName + "." + e.className + " " + e.textContent.trim().slice(0, 20));
	}
	return [...found].join("; ");
})()`

// unnamed lists the links, fields, buttons, regions and drawings that have no name for a screen reader.
const unnamed = `[...document.querySelectorAll("a, button, input:not([type=hidden]), select, [role=region], svg")].filter(e =>
	!(e.textContent.trim() || e.getAttribute("aria-label") || e.getAttribute("aria-labelledby") || (e.labels && e.labels.length))).map(e => e.outerHTML.slice(0, 60)).join("; ")`

// canaries must be on no page, visible or hidden, and so in no screenshot.
var canaries = []string{planted.Card, planted.Secret, "4242 4242", "0123456789abcdef", "expand=balance"}

func (b *browser) tellsNothing(t *testing.T) {
	t.Helper()
	whole := b.eval(t, `document.documentElement.outerHTML + [...document.querySelectorAll("*")].map(e => e.innerText || "").join(" ") + document.URL + document.cookie`)
	for _, canary := range canaries {
		assert.NotContains(t, whole, canary)
	}
}

// Bodies that a user has revealed show everything but the secrets. Their screenshot has no secret either.
func TestRevealedInABrowser(t *testing.T) {
	s, b := open(t), browse(t)
	b.run(t, chromedp.Navigate(s.url+s.page(t, planted.Completed)), chromedp.WaitReady("footer"),
		chromedp.SendKeys(`form[action="reveal"] input[name="because"]`, "ticket 7"), chromedp.Submit(`form[action="reveal"]`), chromedp.WaitReady("pre"))
	assert.Contains(t, b.eval(t, `document.querySelector("pre").textContent`), "amount = 2000")
	b.tellsNothing(t)
	if shots != "" {
		var shot []byte
		b.run(t, chromedp.FullScreenshot(&shot, 100))
		require.NoError(t, os.WriteFile(filepath.Join(shots, "revealed.png"), shot, 0o644))
	}
}

// Every page is shown in both colour schemes, and at 1100 and 320 px. The page does nothing that its policy forbids,
// and nothing is wider than the window. Every text stands out from its background, and every control has a name.
func TestEveryPage(t *testing.T) {
	s, b := open(t), browse(t)
	pages := map[string]string{
		"overview": "", "operations": "operations", "flows": "flows", "flow": "flow?name=" + planted.SetAside, "receipts": "receipts", "receipt": "receipt?h=2", "none": "operations?provider=nobody",
	}
	for op, err := range s.journal.List(t.Context(), journal.Filter{}) {
		require.NoError(t, err)
		pages[fmt.Sprintf("operation-%d", op.Handle)] = fmt.Sprintf("operation?h=%d", op.Handle)
	}
	for name, path := range pages {
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int64{1100, 320} {
				t.Run(fmt.Sprintf("%s/%s/%d", name, scheme, width), func(t *testing.T) {
					var shot []byte
					b.run(t, b.scheme(scheme), chromedp.EmulateViewport(width, 900), chromedp.Navigate(s.url+path), chromedp.WaitReady("footer"))
					assert.Empty(t, b.eval(t, wider), "is wider than the window")
					assert.Empty(t, b.eval(t, faint), "is faint")
					assert.Empty(t, b.eval(t, unnamed), "has no name")
					assert.NotEqual(t, "pwned", b.eval(t, "document.title"), "a name ran as a script")
					assert.Equal(t, "0", b.eval(t, `document.querySelectorAll("[style], style, script:not([src]), [onclick], [onload]").length`))
					b.tellsNothing(t)
					if shots != "" {
						b.run(t, chromedp.FullScreenshot(&shot, 100))
						require.NoError(t, os.WriteFile(filepath.Join(shots, fmt.Sprintf("%s-%s-%d.png", name, scheme, width)), shot, 0o644))
					}
				})
			}
		}
	}
}

// An operation can be resolved by the keyboard alone. The test finds it on the overview, opens it, and records the
// decision.
func TestResolveByKeyboard(t *testing.T) {
	s, b := open(t), browse(t)
	b.run(t, chromedp.Navigate(s.url), chromedp.WaitReady("footer"))
	focused := func() string {
		return b.eval(t, `(e => e.getAttribute("href") || e.name || e.textContent)(document.activeElement)`)
	}
	// goTo presses the tab key until the wanted element has the focus.
	goTo := func(wanted string) {
		t.Helper()
		for range 80 {
			b.run(t, chromedp.KeyEvent(kb.Tab))
			if focused() == wanted {
				return
			}
		}
		t.Fatalf("the tab key does not lead to %s", wanted)
	}
	b.run(t, chromedp.KeyEvent(kb.Tab))
	assert.Equal(t, "#main", focused(), "the first is a link past the navigation")
	goTo("operations?state=unknown&order=oldest")
	b.run(t, chromedp.KeyEvent(kb.Enter), chromedp.WaitReady("table.list"))
	goTo(s.page(t, planted.Unknown))
	b.run(t, chromedp.KeyEvent(kb.Enter), chromedp.WaitReady("#resolve"))
	goTo("as")
	b.run(t, chromedp.KeyEvent(" "))
	goTo("because")
	b.run(t, chromedp.KeyEvent("the dashboard shows ch_9"), chromedp.KeyEvent(kb.Enter), chromedp.WaitReady(".notice"))
	op := s.operation(t, planted.Unknown)
	assert.Equal(t, journal.StateCompleted, op.State)
	assert.Equal(t, "the dashboard shows ch_9", op.Resolved.Why)
	assert.Equal(t, "ann", op.Resolved.By)
}

// Counts follow by themselves, and stop when they are paused.
func TestCountsFollow(t *testing.T) {
	s, b := open(t), browse(t)
	b.run(t, chromedp.Navigate(s.url), chromedp.WaitVisible("#pause"), chromedp.Poll(`document.getElementById("live-state").textContent === "up to date"`, nil, chromedp.WithPollingTimeout(slow)))
	assert.Equal(t, "3", b.eval(t, `document.querySelector("td[data-count=unknown]").textContent`))
	resolved := func(id string) {
		op := s.operation(t, id)
		_, err := s.journal.Apply(t.Context(), machine.Event{
			Kind: machine.EventResolve, Ref: op.Ref, At: time.Now(), Resolution: journal.Executed, Claim: op.Claim, Cause: "a test", By: "ann",
		})
		require.NoError(t, err)
	}
	resolved(planted.Unknown)
	b.run(t, chromedp.Poll(`document.querySelector("td[data-count=unknown]").textContent === "2" && document.querySelector("svg [data-count=unknown]").textContent === "2"`, nil, chromedp.WithPollingTimeout(slow)))
	b.run(t, chromedp.Click("#pause"))
	assert.Equal(t, "true", b.eval(t, `document.getElementById("pause").getAttribute("aria-pressed")`))
	assert.Equal(t, "paused", b.eval(t, `document.getElementById("live-state").textContent`))
	resolved(planted.Long)
	b.run(t, chromedp.Click("#pause"), chromedp.Poll(`document.querySelector("td[data-count=unknown]").textContent === "1"`, nil, chromedp.WithPollingTimeout(slow)))
}

// Without JavaScript everything is there, and a form works.
func TestWithoutJavaScript(t *testing.T) {
	s, b := open(t), browse(t)
	b.run(t, emulation.SetScriptExecutionDisabled(true), chromedp.Navigate(s.url), chromedp.WaitReady("footer"))
	var text string
	b.run(t, chromedp.Text("main", &text))
	assert.Contains(t, text, "3 operations may or may not have taken effect")
	b.run(t, chromedp.Navigate(s.url+s.page(t, planted.Unknown)), chromedp.WaitReady("#resolve"),
		chromedp.Click(`input[value="not_executed"]`), chromedp.SendKeys(`form[action="resolve"] input[name="because"]`, "the ledger has none"),
		chromedp.Submit(`form[action="resolve"]`), chromedp.WaitReady(".notice"))
	assert.Equal(t, journal.StateCancelled, s.operation(t, planted.Unknown).State)
}

// A form on another site that is sent here does nothing.
func TestAnotherSitesForm(t *testing.T) {
	s, b := open(t), browse(t)
	op := s.operation(t, planted.Unknown)
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<form method="post" action="%sresolve"><input name="h" value="%d"><input name="generation" value="0"><input name="claim" value="%d">
			<input name="as" value="not_executed"><input name="because" value="x"><button id="go">Win</button></form>`, s.url, op.Handle, op.Claim)
	}))
	t.Cleanup(evil.Close)
	b.run(t, chromedp.Navigate(strings.Replace(evil.URL, "127.0.0.1", "localhost", 1)), chromedp.Click("#go"), chromedp.WaitReady(".failure"))
	assert.Equal(t, journal.StateUnknown, s.operation(t, planted.Unknown).State)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reports = nil // that the form was refused
}
