//go:build unix

package browsertest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
	"github.com/onceward/onceward/proxy"
)

// A page makes no call through a proxy on the loopback interface, even with the callers' credential. The page is on another
// site, under a host name that leads to the interface (DNS rebinding), or of the proxy's own origin.
func TestAPageMakesNoCallThroughAProxy(t *testing.T) {
	const credential = "Bearer sk_test_of_the_shop"
	var reached atomic.Int64
	box := providertest.NewUnstartedServer(providers.Stripe(), providertest.Objects("ch_"))
	box.Observe = func(providertest.Request) { reached.Add(1) }
	box.Start()
	defer box.Close()
	at, err := url.Parse(box.URL)
	require.NoError(t, err)
	upstream := proxy.Upstream{URL: at, Credentials: [][]byte{[]byte(credential)}}
	client, err := onceward.New(onceward.Config{
		Journal: memory.New(), Providers: []providers.Provider{box.Provider()}, Secret: []byte("a secret of 16 bytes or more"), Authorize: proxy.Authorize(upstream),
	})
	require.NoError(t, err)
	defer client.Close()
	handler, err := proxy.New(client, upstream)
	require.NoError(t, err)
	front := httptest.NewServer(handler)
	defer front.Close()
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<form method="post" action="%s/v1/charges"><input name="amount" value="2000"></form>`, front.URL)
	}))
	defer evil.Close()

	b := browse(t)
	// attempt returns the status that the page's script gets, or why it gets none.
	attempt := func(options string) (result string) {
		script := fmt.Sprintf(`fetch(target + "/v1/charges", %s).then(r => String(r.status), () => "blocked")`, options)
		b.run(t, chromedp.Evaluate(script, &result, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
		return result
	}
	whole := fmt.Sprintf(`{method: "POST", body: "amount=2000", headers: {"Authorization": %q, "Onceward-Operation": "invoice-1", "Content-Type": "application/x-www-form-urlencoded"}}`, credential)
	reading := fmt.Sprintf(`{headers: {"Authorization": %q}}`, credential)

	port := front.URL[strings.LastIndex(front.URL, ":"):]
	for _, page := range []struct{ url, target, whole, plain string }{
		{strings.Replace(evil.URL, "127.0.0.1", "localhost", 1), front.URL, "blocked", "0"},
		{"http://evil.localhost" + port, "http://evil.localhost" + port, "403", "403"},
		{front.URL, front.URL, "403", "403"},
	} {
		b.run(t, chromedp.Navigate(page.url), chromedp.Evaluate(fmt.Sprintf(`var target = %q`, page.target), nil))
		assert.Equal(t, page.whole, attempt(whole), page.url)
		assert.Equal(t, page.whole, attempt(reading), page.url)
		assert.Equal(t, page.plain, attempt(`{method: "POST", body: "amount=2000", mode: "no-cors"}`), page.url)
	}
	b.run(t, chromedp.Navigate(evil.URL), chromedp.Submit("form"), chromedp.WaitReady("pre"))
	assert.Contains(t, b.eval(t, "document.body.textContent"), "onceward_refused", "and a form reads that it is refused")
	assert.Zero(t, reached.Load(), "a request reached the provider")
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reports = nil // that each was refused
}
