package sim

import (
	"context"
	"io"
	"maps"
	"slices"

	"github.com/onceward/onceward"
)

// asksAfterwards asks each provider for something new once all is well. A client that never
// sends pays nothing twice, and is good for nothing.
func (l *life) asksAfterwards(p *process) {
	for _, host := range slices.Sorted(maps.Keys(l.world.contracts)) {
		name := "afterwards-" + p.name + "-" + host
		if l.world.contracts[host].box != nil {
			name = "afterwards-" + p.name + "-box"
		}
		req := l.order(onceward.WithOperation(context.Background(), name), host, name, noVariant)
		if l.has(withheld) || l.has(looks) {
			req.Header.Set("Authorization", "Bearer live_"+canary)
		}
		resp, err := p.client.HTTPClient().Do(req)
		if err != nil {
			l.fault("%s: all is well, and it is not made: %v", name, err)
			continue
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if made, _ := l.world.count(name); resp.StatusCode/100 != 2 || made != 1 {
			l.fault("%s: all is well, and it has %d effects, and was answered by %d", name, made, resp.StatusCode)
		}
	}
}
