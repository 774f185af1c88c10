package providers_test

import (
	"fmt"
	"time"

	"github.com/onceward/onceward/providers"
)

// What GoCardless does not publish is not claimed. A program that has it from
// GoCardless says so, and a creation that may have run is then sent again: it gets
// the resource that the first request created.
func ExampleGoCardless() {
	p := providers.GoCardless()
	for i := range p.Endpoints {
		if e := &p.Endpoints[i]; e.Remembers != providers.Nothing {
			e.Retention = 24 * time.Hour
			e.InFlightGuard = true
		}
	}
	fmt.Println(p.Validate())
	// Output: <nil>
}
