package providers_test

import (
	"fmt"
	"time"

	"github.com/onceward/onceward/providers"
)

// A program may know more from Square than Square publishes. It states these facts on a copy of the table.
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
