package providers_test

import (
	"fmt"
	"time"

	"github.com/onceward/onceward/providers"
)

// A program that Square has told more than it publishes says so on a copy of the
// table.
func ExampleSquare() {
	p := providers.Square(24 * time.Hour)
	for i := range p.Endpoints {
		if e := &p.Endpoints[i]; e.Pattern == "POST /v2/payments" {
			e.Remembers = providers.SuccessesCleanFailures
			e.InFlightGuard = true
		}
	}
	fmt.Println(p.Validate())
	// Output: <nil>
}
