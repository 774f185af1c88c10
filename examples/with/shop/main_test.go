package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal/mysql/mysqltest"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
	"github.com/onceward/onceward/server/servertest"
)

// The storm runs itself as the shop's processes: here, that is the test binary.
func TestMain(m *testing.M) {
	if os.Getenv(stripeVariable) != "" {
		main()
	}
	os.Exit(m.Run())
}

func storms(t *testing.T, args ...string) {
	t.Helper()
	orders, kills := soak.Times(8, 60), soak.Times(3, 40)
	var out, errs bytes.Buffer
	status := run(t.Context(), append([]string{"-seed", fmt.Sprint(soak.Seed(t, 1)), "-orders", fmt.Sprint(orders), "-kills", fmt.Sprint(kills)}, args...), &out, &errs)
	require.Zero(t, status, "%s%s", &out, &errs)
	for _, row := range []string{"orders", "bookings, by webhook", "deliveries, by the flow", "charges at Stripe", "parcels at the courier"} {
		assert.Regexp(t, fmt.Sprintf(`(?m)^%s +%d +0 +0$`, row, orders), out.String())
	}
	assert.Regexp(t, fmt.Sprintf(`(?m)^answers to a key +%d +0 +0$`, 2*orders), out.String())
	assert.Regexp(t, fmt.Sprintf(`(?m)^kills +%d$`, kills), out.String())
}

func TestStormOnSQLite(t *testing.T) {
	t.Parallel()
	storms(t)
}

func TestStormOnPostgreSQL(t *testing.T) {
	t.Parallel()
	storms(t, "-postgres", postgrestest.Start(t).URL())
}

func TestStormOnMariaDB(t *testing.T) {
	t.Parallel()
	server := mysqltest.Start(t)
	server.Exec(t, "CREATE DATABASE shop")
	storms(t, "-mysql", server.DSN()+"shop")
}

// opened is a shop process on a new SQLite file, with its handler.
func opened(t *testing.T, stripe, courier string) (*shop, *http.ServeMux) {
	t.Helper()
	folder := t.TempDir()
	require.NoError(t, makeTables(t.Context(), options{dir: folder}))
	s, err := openStore(t.Context(), options{dir: folder})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	h, err := newShop(t.Context(), s, stripe, courier)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, h.client.Shutdown(context.Background())) })
	handler, err := h.handler()
	require.NoError(t, err)
	return h, handler.(*http.ServeMux)
}

// The shop's endpoints keep the rules that can be seen from outside.
func TestRulesOfTheEndpoints(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]servertest.Request{
		"Atomic":     {Path: "/orders", Body: `{"item":"a","cents":100}`, Other: `{"item":"a","cents":200}`},
		"Repeatable": {Path: "/deliveries", Body: `{"order":"ord_1"}`, Other: `{"order":"ord_2"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stripe := providertest.NewServer(providers.Stripe(), http.HandlerFunc(charge))
			t.Cleanup(stripe.Close)
			courier := providertest.NewServer(providers.Onceward(30*24*time.Hour), http.HandlerFunc(sendParcel))
			t.Cleanup(courier.Close)
			h, handler := opened(t, stripe.URL, courier.URL)
			row.Header = http.Header{"Customer": {"a"}, "Content-Type": {"application/json"}}
			row.Another = http.Header{"Customer": {"b"}, "Content-Type": {"application/json"}}
			row.Effects = func() (n int) {
				for _, table := range [][2]string{{"orders", "id"}, {"deliveries", "order_id"}} {
					rows, err := h.count(context.Background(), table[0], table[1])
					assert.NoError(t, err)
					for _, of := range rows {
						n += of
					}
				}
				return n
			}
			servertest.Check(t, handler, row)
			if name == "Repeatable" {
				assert.Len(t, courier.Effects(), row.Effects(), "a parcel for each row")
			}
		})
	}
}

func TestOrdersThatAreRefused(t *testing.T) {
	t.Parallel()
	_, handler := opened(t, "http://stripe.example", "http://courier.example")
	for body, path := range map[string]string{`{"cents":-1}`: "/orders", `{`: "/orders", `{"order":""}`: "/deliveries"} {
		r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader([]byte(body)))
		r.Header.Set("Customer", "a")
		r.Header.Set("Idempotency-Key", "key-0001")
		got := httptest.NewRecorder()
		handler.ServeHTTP(got, r)
		assert.Equal(t, http.StatusBadRequest, got.Code, body)
		assert.Equal(t, "false", got.Header().Get("Idempotency-Recorded"), body) // the key is free
	}
}

// Each route that changes something demands a key, or takes a signed event's identifier for one.
func TestRoutesThatChangeSomethingHaveKeys(t *testing.T) {
	t.Parallel()
	h, mux := opened(t, "http://stripe.example", "http://courier.example")
	source, err := os.ReadFile("service.go")
	require.NoError(t, err)
	routes := regexp.MustCompile(`mux\.Handle(?:Func)?\("(\S+) (\S+)", `).FindAllStringSubmatch(string(source), -1)
	require.Len(t, routes, strings.Count(string(source), "mux.Handle"), "each route has a method and a path")
	ask := func(method, path, body string, signed http.Header) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Customer", "a")
		maps.Copy(r.Header, signed)
		got := httptest.NewRecorder()
		mux.ServeHTTP(got, r)
		return got
	}
	webhooks := 0
	for _, route := range routes {
		method, path := route[1], route[2]
		switch {
		case method == http.MethodGet:
			continue
		case strings.HasPrefix(path, "/webhooks/"):
			webhooks++
			event := `{"id":"evt_1","object":"event","type":"charge.succeeded","data":{"object":{"id":"ch_1","object":"charge","amount":100,"description":"ord_1"}}}`
			assert.Equal(t, http.StatusBadRequest, ask(method, path, event, nil).Code, "no signature")
			signed := http.Header{}
			_, err := providertest.Sign("stripe", providertest.Signing{Secret: webhookSecret, At: time.Now()}, signed, []byte(event))
			require.NoError(t, err)
			for range 2 {
				assert.Equal(t, http.StatusNoContent, ask(method, path, event, signed).Code)
			}
		default:
			got := ask(method, path, "{}", nil)
			assert.Equal(t, http.StatusBadRequest, got.Code, route)
			assert.Contains(t, got.Body.String(), "The request needs a key", route)
		}
	}
	booked, err := h.count(t.Context(), "bookings", "order_id")
	require.NoError(t, err)
	assert.Equal(t, map[string]int{"ord_1": webhooks}, booked)
}

func TestFlagsThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-orders", "0"}, {"-kills", "-1"}, {"-processes", "-1"}, {"-unheard-of"}, {"now"}} {
		var errs bytes.Buffer
		assert.Equal(t, 2, run(t.Context(), args, io.Discard, &errs), "%q", args)
		assert.NotEmpty(t, errs.String(), "%q", args)
	}
}
