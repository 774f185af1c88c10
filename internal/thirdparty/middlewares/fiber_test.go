package middlewares_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	fiber2 "github.com/gofiber/fiber/v2"
	adaptor2 "github.com/gofiber/fiber/v2/middleware/adaptor"
	idempotency2 "github.com/gofiber/fiber/v2/middleware/idempotency"
	fiber3 "github.com/gofiber/fiber/v3"
	adaptor3 "github.com/gofiber/fiber/v3/middleware/adaptor"
	idempotency3 "github.com/gofiber/fiber/v3/middleware/idempotency"
	"github.com/stretchr/testify/assert"
)

var errKey = errors.New("a key has 8 to 255 characters")

// valid replaces the middlewares' own rule, which takes UUIDs alone.
func valid(key string) error {
	if len(key) < 8 || len(key) > 255 {
		return errKey
	}
	return nil
}

// fibers are the rules that Fiber's middleware breaks. It serves requests without a key and compares nothing. It
// takes an empty key or two keys for none, and has one store for all tenants. It answers 500 if a key is refused.
var fibers = []string{
	"a request without a key is refused",
	"an empty key is refused",
	"a request with two keys is refused",
	"a key of 4,000 bytes is refused",
	"another request under a key is refused",
	"another request under a key learns nothing",
	"another tenant's key is another key",
}

// Check finds the faults of Fiber's middleware in both generations, and nothing else.
func TestFiber(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]func(effect func() int64) http.Handler{
		"v2": func(effect func() int64) http.Handler {
			app := fiber2.New()
			app.Use(idempotency2.New(idempotency2.Config{KeyHeader: "Idempotency-Key", KeyHeaderValidate: valid, Lifetime: 24 * time.Hour}))
			app.Post("/payments", func(c *fiber2.Ctx) error {
				return c.Status(http.StatusCreated).SendString(fmt.Sprint("payment ", effect()))
			})
			return adaptor2.FiberApp(app)
		},
		"v3": func(effect func() int64) http.Handler {
			app := fiber3.New()
			app.Use(idempotency3.New(idempotency3.Config{KeyHeader: "Idempotency-Key", KeyHeaderValidate: valid, Lifetime: 24 * time.Hour}))
			app.Post("/payments", func(c fiber3.Ctx) error {
				return c.Status(http.StatusCreated).SendString(fmt.Sprint("payment ", effect()))
			})
			return adaptor3.FiberApp(app)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.ElementsMatch(t, fibers, faultsOf(t, handler, nil, http.Header{"Authorization": {"Bearer of another"}}))
		})
	}
}
