package providertest_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

func TestAResponseCanBeCutAtEachOfItsBytes(t *testing.T) {
	t.Parallel()
	for _, secured := range []bool{false, true} {
		srv := providertest.NewUnstartedServer(providers.Stripe(), created)
		if secured {
			srv.StartTLS()
		} else {
			srv.Start()
		}
		t.Cleanup(srv.Close)
		via := &http.Client{Transport: srv.Client().Transport.(*http.Transport).Clone()}
		via.Transport.(*http.Transport).DisableKeepAlives = true
		ask := func() (head bool, body string, err error) {
			req, err := http.NewRequest(http.MethodPost, srv.URL+"/v1/charges", nil)
			require.NoError(t, err)
			req.Header.Set("Idempotency-Key", "k1")
			resp, err := via.Do(req)
			if err != nil {
				return false, "", err
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			return true, string(text), err
		}
		heads, bodies := 0, map[string]bool{}
		for n := range 230 {
			srv.Script(providertest.CutResponseAt(n))
			head, body, err := ask()
			require.Error(t, err, "cut after %d bytes", n)
			if head {
				heads++
				bodies[body] = true
			}
		}
		assert.Positive(t, heads)
		assert.Less(t, heads, 230-len("HTTP/1.1 201 Created"), "the status line and headers were cut as well")
		assert.Len(t, bodies, len(`{"id":"ch_1"}`), "each beginning of the body")
		_, body, err := ask()
		require.NoError(t, err)
		assert.Equal(t, `{"id":"ch_1"}`, body)
		srv.AssertOneEffect(t, "k1")
	}
}

func TestARequestCanBeCutAtEachByteOfItsBody(t *testing.T) {
	const whole = "amount=10"
	var read []string
	srv := providertest.NewUnstartedServer(providers.Stripe(), created)
	srv.Observe = func(r providertest.Request) { read = append(read, string(r.Body)) }
	srv.Start()
	for n := -1; n <= len(whole)+1; n++ {
		srv.Script(providertest.CutRequestAt(n))
		_, _, err := send(t.Context(), http.MethodPost, srv.URL+"/v1/charges", "k1", whole)
		require.Error(t, err)
	}
	srv.Close()
	assert.Equal(t, []string{"", "", "a", "am", "amo", "amou", "amoun", "amount", "amount=", "amount=1", "amount=10", "amount=10"}, read)
	assert.Empty(t, srv.Effects())
	assert.Equal(t, 12, srv.Requests())
}

func TestAConnectionEndsByAResetOrInOrder(t *testing.T) {
	for _, fault := range []providertest.Fault{providertest.DropBefore(), providertest.DropAfter()} {
		srv := start(t, providers.Raw(day), created)
		srv.Script(fault, fault.ByReset(), fault.ByClose())
		for n := range 3 {
			_, _, err := send(t.Context(), http.MethodPost, srv.URL, "k1", "")
			require.Error(t, err)
			if n < 2 {
				assert.ErrorIs(t, err, syscall.ECONNRESET)
			} else {
				assert.ErrorIs(t, err, io.EOF)
			}
		}
	}
}

// A malformed chunk ends the body with an error.
func TestMalformedChunk(t *testing.T) {
	srv := start(t, providers.Stripe(), created)
	srv.Script(providertest.MalformedChunk())
	resp, body, err := send(t.Context(), http.MethodPost, srv.URL+"/v1/charges", "k1", "")
	require.Error(t, err)
	assert.Equal(t, http.StatusCreated, resp.StatusCode)
	assert.Equal(t, []string{"chunked"}, resp.TransferEncoding)
	assert.Equal(t, `{"id":"`, body)
	srv.AssertOneEffect(t, "k1")
}

func TestAContentLengthCanBeWrong(t *testing.T) {
	for by, want := range map[int]string{1: `{"id":"ch_1"}`, 100: `{"id":"ch_1"}`, 0: `{"id":"ch_1"}`, -1: `{"id":"ch_1"`, -100: ""} {
		srv := start(t, providers.Stripe(), created)
		srv.Script(providertest.WrongLength(by))
		resp, body, err := send(t.Context(), http.MethodPost, srv.URL+"/v1/charges", "k1", "")
		if by > 0 {
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, by)
		} else {
			require.NoError(t, err, by)
		}
		assert.Equal(t, want, body, by)
		assert.Equal(t, int64(max(13+by, 0)), resp.ContentLength, by)
		srv.AssertOneEffect(t, "k1")
	}
}

func TestAPageStandsInForTheAnswer(t *testing.T) {
	for effects, fault := range []providertest.Fault{providertest.PageBefore(http.StatusBadGateway), providertest.PageAfter(http.StatusBadGateway)} {
		srv := start(t, providers.Stripe(), created)
		srv.Script(fault)
		resp, body := post(t, srv.URL+"/v1/charges", "k1", "")
		assert.Equal(t, http.StatusBadGateway, resp.StatusCode)
		assert.Equal(t, "text/html; charset=utf-8", resp.Header.Get("Content-Type"))
		assert.Contains(t, body, "<h1>502 Bad Gateway</h1>")
		srv.AssertEffects(t, "k1", effects)
		_, body = post(t, srv.URL+"/v1/charges", "k1", "")
		assert.Equal(t, `{"id":"ch_1"}`, body)
		srv.AssertOneEffect(t, "k1")
	}

	srv := start(t, providers.Stripe(), created)
	srv.Script(providertest.Status(http.StatusOK, http.Header{"Content-Type": {"text/html"}}))
	resp, body := post(t, srv.URL+"/v1/charges", "k1", "")
	assert.Equal(t, "text/html", resp.Header.Get("Content-Type"))
	assert.True(t, strings.HasPrefix(body, "<html>"))
	assert.Empty(t, srv.Effects())
}

// An informational response comes before the answer.
func TestInformationalResponse(t *testing.T) {
	srv := start(t, providers.Stripe(), created)
	srv.Script(providertest.Inform(http.StatusEarlyHints), providertest.Inform(http.StatusProcessing))
	for _, want := range []int{103, 102} {
		informed := 0
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, _ textproto.MIMEHeader) error { informed = code; return nil },
		})
		resp, _, err := send(ctx, http.MethodPost, srv.URL+"/v1/charges", "k1", "")
		require.NoError(t, err)
		assert.Equal(t, http.StatusCreated, resp.StatusCode)
		assert.Equal(t, want, informed)
	}
	srv.AssertOneEffect(t, "k1")
}

// afterTheEffect are faults that a client sees as an error, over any version of
// HTTP.
var afterTheEffect = []providertest.Fault{
	providertest.DropAfter(),
	providertest.DropAfter().ByClose(),
	providertest.CutAt(0),
	providertest.CutAt(5),
	providertest.CutAt(5).ByReset(),
	providertest.CutResponseAt(0),
	providertest.CutResponseAt(30),
	providertest.MalformedChunk(),
	providertest.WrongLength(3),
}

func TestEveryVersionOfHTTPWithAndWithoutTLS(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name         string
		secured, two bool
		proto        string
	}{
		{"HTTP/1.1", false, false, "HTTP/1.1"},
		{"HTTP/1.1 over TLS", true, false, "HTTP/1.1"},
		{"h2c", false, true, "HTTP/2.0"},
		{"HTTP/2 over TLS", true, true, "HTTP/2.0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			srv := providertest.NewUnstartedServer(providers.Stripe(), created)
			srv.EnableHTTP2 = tc.two
			if tc.secured {
				srv.StartTLS()
			} else {
				srv.Start()
			}
			t.Cleanup(srv.Close)
			assert.Equal(t, tc.secured, strings.HasPrefix(srv.URL, "https://"))
			ask := func(key string) (*http.Response, string, error) {
				req, err := http.NewRequest(http.MethodPost, srv.URL+"/v1/charges", bytes.NewBufferString("amount=1"))
				require.NoError(t, err)
				req.GetBody = nil // net/http would repeat the request by itself
				req.Header.Set("Idempotency-Key", key)
				resp, err := srv.Client().Do(req)
				if err != nil {
					return nil, "", err
				}
				defer resp.Body.Close()
				body, err := io.ReadAll(resp.Body)
				return resp, string(body), err
			}
			for _, replayed := range []string{"", "true"} {
				resp, body, err := ask("k1")
				require.NoError(t, err)
				assert.Equal(t, tc.proto, resp.Proto)
				assert.Equal(t, `{"id":"ch_1"}`, body)
				assert.Equal(t, replayed, resp.Header.Get("Idempotent-Replayed"))
			}
			srv.AssertOneEffect(t, "k1")
			for _, fault := range afterTheEffect {
				key := "k-" + strings.ReplaceAll(fault.String(), " ", "-")
				srv.Script(fault)
				_, _, err := ask(key)
				require.Error(t, err, fault.String())
				srv.AssertOneEffect(t, key)
				_, body, err := ask(key)
				require.NoError(t, err, fault.String())
				assert.Equal(t, `{"id":"ch_1"}`, body)
				srv.AssertOneEffect(t, key)
			}
			srv.Script(providertest.DropBefore(), providertest.CutRequestAt(2), providertest.WrongLength(-2), providertest.Inform(103))
			for range 2 {
				_, _, err := ask("k2")
				require.Error(t, err)
			}
			assert.Zero(t, srv.EffectsFor("k2"))
			_, body, err := ask("k2")
			require.NoError(t, err)
			assert.Equal(t, `{"id":"ch_1`, body)
			_, _, err = ask("k2")
			require.NoError(t, err)
			srv.AssertOneEffect(t, "k2")

			router, err := tables.NewRouter([]providers.Provider{srv.Provider()})
			require.NoError(t, err)
			req, err := http.NewRequest(http.MethodPost, srv.URL+"/v1/charges", nil)
			require.NoError(t, err)
			assert.True(t, router.Route(req.Method, req.URL).Listed, "Provider has the server's host")
		})
	}
}

// A response that is longer than it says spoils no other.
func TestOverlongResponseDoesNotAffectOthers(t *testing.T) {
	srv := providertest.NewTLSServer(providers.Raw(day), created)
	t.Cleanup(srv.Close)
	srv.Script(providertest.WrongLength(-2))
	for _, closes := range []bool{true, false} {
		req, err := http.NewRequest(http.MethodPost, srv.URL+"/v1/charges", strings.NewReader("amount=1"))
		require.NoError(t, err)
		req.GetBody = nil // net/http would repeat the request by itself
		req.Header.Set("Idempotency-Key", "k1")
		resp, err := srv.Client().Do(req)
		require.NoError(t, err)
		_, err = io.ReadAll(resp.Body)
		require.NoError(t, errors.Join(err, resp.Body.Close()))
		assert.Equal(t, closes, resp.Close, "what is left over is not read as the answer to the next request")
	}
}

func TestACertificateIsTrustedByTheClientOnly(t *testing.T) {
	srv := providertest.NewTLSServer(providers.Raw(day), created)
	t.Cleanup(srv.Close)
	resp, err := srv.Client().Get(srv.URL)
	require.NoError(t, err)
	resp.Body.Close()
	assert.NotNil(t, resp.TLS)
	_, _, err = send(t.Context(), http.MethodGet, srv.URL, "", "")
	var untrusted *tls.CertificateVerificationError
	assert.ErrorAs(t, err, &untrusted)
}
