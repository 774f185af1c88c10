package providers_test

import (
	"fmt"
	"time"

	"github.com/onceward/onceward/providers"
)

// The table claims no fact that GoCardless does not publish. A program that knows these facts from GoCardless states
// them. A creation that may have run is then sent again, and gets the resource that the first request created.
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
