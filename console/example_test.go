package console_test

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/console"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
)

// login makes the browser ask for a name and a password (RFC 7617). Serve it over TLS alone.
func login(passwords map[string]string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, password, _ := r.BasicAuth()
		want, known := passwords[name]
		if !known || subtle.ConstantTimeCompare([]byte(password), []byte(want)) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="onceward", charset="UTF-8"`)
			http.Error(w, "log in", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// mount serves the console on an admin mux, behind login.
func mount(mux *http.ServeMux, j journal.Journal, client *onceward.Client, passwords map[string]string) error {
	page, err := console.New(console.Options{
		Journal: j, Client: client,
		Actions: []console.Action{console.Reveal, console.Resolve, console.Cancel, console.RetryFlow, console.GiveUp, console.ResolveReceipt},
		Authorize: func(r *http.Request, _ console.Action) (actor string, err error) {
			name, _, given := r.BasicAuth() // login has checked the password
			if !given {
				return "", errors.New("not logged in")
			}
			return name, nil // recorded with the decision
		},
	})
	if err != nil {
		return err
	}
	mux.Handle("/admin/onceward/", http.StripPrefix("/admin/onceward", login(passwords, page)))
	return nil
}

func ExampleNew() {
	dir, err := os.MkdirTemp("", "console")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	j, err := sqlite.Open(filepath.Join(dir, "payments.db"), sqlite.Options{Volatile: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	defer j.Close()
	client, err := onceward.New(onceward.Config{Journal: j, Providers: []providers.Provider{providers.Stripe()}})
	if err != nil {
		panic(err)
	}
	defer client.Shutdown(context.Background())

	mux := http.NewServeMux()
	if err := mount(mux, j, client, map[string]string{"ann": "a long password"}); err != nil {
		panic(err)
	}
	for _, password := range []string{"", "guessed", "a long password"} {
		r := httptest.NewRequest(http.MethodGet, "https://shop.example/admin/onceward/", nil)
		if password != "" {
			r.SetBasicAuth("ann", password)
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Println(w.Code, strings.TrimSuffix(w.Header().Get("WWW-Authenticate"), `, charset="UTF-8"`))
	}
	// Output:
	// 401 Basic realm="onceward"
	// 401 Basic realm="onceward"
	// 200
}
