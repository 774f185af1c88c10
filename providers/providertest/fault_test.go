package providertest_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// A drop loses the answer before or after the effect.
func TestDropLosesTheAnswer(t *testing.T) {
	t.Parallel()
	for _, box := range boxes {
		for effects, fault := range []providertest.Fault{providertest.DropBefore(), providertest.DropAfter()} {
			t.Run(box.provider.Name+"/"+fault.String(), func(t *testing.T) {
				srv := start(t, box.provider, created)
				srv.Script(fault)
				_, _, err := send(t.Context(), http.MethodPost, srv.URL+box.path, box.key, "amount=1")
				require.Error(t, err)
				assert.Equal(t, effects, srv.EffectsFor("k1"))

				resp, _ := post(t, srv.URL+box.path, box.key, "amount=1")
				assert.Equal(t, http.StatusCreated, resp.StatusCode)
				assert.Equal(t, 1, srv.EffectsFor("k1"))
			})
		}
	}
}

func TestACutAnswerEndsAtTheByte(t *testing.T) {
	const whole = `{"id":"ch_1"}`
	for at, want := range map[int]string{-1: "", 0: "", 1: whole[:1], 5: whole[:5], len(whole): whole[:len(whole)-1], 1000: whole[:len(whole)-1]} {
		srv := start(t, providers.Stripe(), created)
		srv.Script(providertest.CutAt(at))
		resp, body, err := send(t.Context(), http.MethodPost, srv.URL+"/v1/charges", "k1", "")
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "cut at %d", at)
		assert.Equal(t, http.StatusCreated, resp.StatusCode)
		assert.Equal(t, int64(len(whole)), resp.ContentLength)
		assert.Equal(t, want, body, "cut at %d", at)

		_, body = post(t, srv.URL+"/v1/charges", "k1", "")
		assert.Equal(t, whole, body)
		assert.Equal(t, 1, srv.EffectsFor("k1"))
	}
}

func TestAnAnswerWithoutABodyIsCutAsAWhole(t *testing.T) {
	srv := start(t, providers.Stripe(), saying(http.StatusNoContent, ""))
	srv.Script(providertest.CutAt(0))
	_, _, err := send(t.Context(), http.MethodPost, srv.URL+"/v1/charges", "k1", "")
	require.Error(t, err)
	assert.Equal(t, 1, srv.EffectsFor("k1"))
}

// A delayed request executes though its client has gone.
func TestDelayedRequestExecutes(t *testing.T) {
	for _, fault := range []providertest.Fault{providertest.DelayBefore(time.Hour), providertest.DelayAfter(time.Hour)} {
		t.Run(fault.String(), func(t *testing.T) {
			executed := make(chan error, 1)
			srv := providertest.NewUnstartedServer(providers.Stripe(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				executed <- r.Context().Err()
			}))
			read := make(chan struct{})
			srv.Observe = func(providertest.Request) { close(read) }
			srv.Script(fault)
			srv.Start()

			ctx, cancel := context.WithCancel(t.Context())
			gone := make(chan error, 1)
			go func() {
				_, _, err := send(ctx, http.MethodPost, srv.URL+"/v1/charges", "k1", "")
				gone <- err
			}()
			<-read
			cancel()
			require.ErrorIs(t, <-gone, context.Canceled)
			srv.Close() // ends the delay and waits for requests that are being served
			assert.NoError(t, <-executed, "the client's going away must not reach the business")
			assert.Equal(t, 1, srv.EffectsFor("k1"))
		})
	}
}

func TestAShortDelayEndsWithTheAnswer(t *testing.T) {
	srv := start(t, providers.Stripe(), created)
	srv.Script(providertest.DelayBefore(time.Millisecond), providertest.DelayAfter(time.Millisecond))
	for range 2 {
		resp, _ := post(t, srv.URL+"/v1/charges", "k1", "")
		assert.Equal(t, http.StatusCreated, resp.StatusCode)
	}
	assert.Equal(t, 1, srv.EffectsFor("k1"))
}

func TestAStatusFaultExecutesNothing(t *testing.T) {
	for _, tc := range []struct {
		name     string
		provider providers.Provider
		path     string
		status   int
		want     providers.Verdict
	}{
		{"a gateway's 503", providers.Stripe(), "/v1/charges", 503, providers.Retry},
		{"a conflict as Stripe says it", providers.Stripe(), "/v1/charges", 409, providers.InFlight},
		{"a rate limit as Stripe says it", providers.Stripe(), "/v1/charges", 429, providers.NotExecuted},
		{"a misused key as Stripe says it", providers.Stripe(), "/v1/charges", 400, providers.Misuse},
		{"a conflict as the draft says it", providers.IETF(day), "/", 409, providers.InFlight},
		{"418", providers.Raw(day), "/", 418, providers.Retry},
	} {
		t.Run(tc.name, func(t *testing.T) {
			key := "k1"
			if tc.provider.Name == "ietf" {
				key = `"k1"`
			}
			srv := start(t, tc.provider, created)
			srv.Script(providertest.Status(tc.status, http.Header{"Retry-After": {"7"}}))
			resp, body := post(t, srv.URL+tc.path, key, "")
			assert.Equal(t, tc.status, resp.StatusCode)
			assert.Equal(t, "7", resp.Header.Get("Retry-After"))
			assert.Equal(t, tc.want.String(), verdict(t, srv, tc.path, resp, body).String())
			assert.Empty(t, srv.Effects())

			resp, _ = post(t, srv.URL+tc.path, key, "")
			assert.Equal(t, http.StatusCreated, resp.StatusCode)
		})
	}
}

func TestScriptRunsInOrderBeforeTheSeed(t *testing.T) {
	srv := start(t, providers.Raw(day), created)
	srv.Seed(1, providertest.Mix{Status: 1, Statuses: []int{500}})
	srv.Script(providertest.Status(501, nil), providertest.None())
	srv.Script(providertest.Status(502, nil))
	var got []int
	for range 5 {
		resp, _ := post(t, srv.URL, "k1", "")
		got = append(got, resp.StatusCode)
	}
	assert.Equal(t, []int{501, 201, 502, 500, 500}, got)
}

func TestUnmetFaultsAreTakenBack(t *testing.T) {
	srv := start(t, providers.Raw(day), created)
	srv.Script(providertest.Status(501, nil), providertest.Status(502, nil))
	srv.ScriptLooks(providertest.Status(503, nil))
	resp, _ := post(t, srv.URL, "k1", "")
	assert.Equal(t, 501, resp.StatusCode)
	assert.Equal(t, []providertest.Fault{providertest.Status(502, nil), providertest.Status(503, nil)}, srv.Unmet())
	assert.Empty(t, srv.Unmet())
	resp, _ = post(t, srv.URL, "k1", "")
	assert.Equal(t, 201, resp.StatusCode)
}

// drawn returns the faults that a server has for its first n requests.
func drawn(t *testing.T, seed uint64, mix providertest.Mix, n int) []string {
	t.Helper()
	srv := providertest.NewUnstartedServer(providers.Raw(day), created)
	var faults []string
	srv.Observe = func(r providertest.Request) { faults = append(faults, r.Fault.String()) }
	srv.Seed(seed, mix)
	srv.Start()
	for range n {
		_, _, _ = send(t.Context(), http.MethodPost, srv.URL, "k1", "")
	}
	srv.Close()
	return faults
}

func TestASeedRepeatsItsFaults(t *testing.T) {
	mix := providertest.Mix{
		DropBefore: 0.15, DropAfter: 0.15, Cut: 0.15, DelayBefore: 0.1, DelayAfter: 0.1, Status: 0.15,
		MaxDelay: time.Millisecond,
		Statuses: []int{409, 429, 503},
	}
	one := drawn(t, 42, mix, 60)
	require.Len(t, one, 60)
	assert.Equal(t, one, drawn(t, 42, mix, 60))
	assert.NotEqual(t, one, drawn(t, 43, mix, 60))

	kinds := map[string]bool{}
	for _, fault := range one {
		kinds[fault[:4]] = true
	}
	assert.Len(t, kinds, 5, "none, drop, cut, delay and status: %v", kinds)
}

// A certain fault happens each time and an impossible one never.
func TestFaultsCertainAndImpossible(t *testing.T) {
	assert.Equal(t, []string{"drop before the effect", "drop before the effect"}, drawn(t, 1, providertest.Mix{DropBefore: 1}, 2))
	assert.Equal(t, []string{"none", "none"}, drawn(t, 1, providertest.Mix{}, 2))
	assert.Equal(t, []string{"status 503", "status 503"}, drawn(t, 1, providertest.Mix{Status: 1}, 2))
}

func TestEachKindOfFaultCanBeDrawn(t *testing.T) {
	for _, tc := range []struct {
		mix  providertest.Mix
		want string
	}{
		{providertest.Mix{DropBefore: 1}, "drop before the effect"},
		{providertest.Mix{DropAfter: 1}, "drop after the effect"},
		{providertest.Mix{Cut: 1}, `cut after \d+ % of the body`},
		{providertest.Mix{DelayBefore: 1, MaxDelay: time.Nanosecond}, "delay of 0s before the effect"},
		{providertest.Mix{DelayAfter: 1, MaxDelay: time.Nanosecond}, "delay of 0s after the effect"},
		{providertest.Mix{Status: 1, Statuses: []int{429}}, "status 429"},
		{providertest.Mix{CutRequest: 1}, `request cut after \d+ bytes of the body`},
		{providertest.Mix{CutResponse: 1}, `cut after \d+ % of the response`},
		{providertest.Mix{MalformedChunk: 1}, "malformed chunk"},
		{providertest.Mix{WrongLength: 1}, `Content-Length wrong by \+\d+`},
		{providertest.Mix{PageBefore: 1}, "HTML page with status 502 before the effect"},
		{providertest.Mix{PageAfter: 1}, "HTML page with status 502 after the effect"},
		{providertest.Mix{FailAfter: 1}, "failure with status 500 after the effect"},
		{providertest.Mix{Inform: 1}, "informational 103 before the answer"},
	} {
		for _, fault := range drawn(t, 3, tc.mix, 4) {
			assert.Regexp(t, "^"+tc.want+"$", fault)
		}
	}
	assert.Equal(t, "cut after 3 bytes of the response, by a reset", providertest.CutResponseAt(3).ByReset().String())
	assert.Equal(t, "drop after the effect, by a close", providertest.DropAfter().ByClose().String())
}
