package sim

import (
	"context"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/onceward/onceward"
)

// asksAfterwards asks each provider for something new once all is well. A client that never
// sends pays nothing twice, and is good for nothing.
func (l *life) asksAfterwards(p *process) {
	for _, host := range slices.Sorted(maps.Keys(l.world.contracts)) {
		name := "afterwards-" + p.name + "-" + host
		ctx := onceward.WithOperation(context.Background(), name)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+host+"/orders", strings.NewReader("errand="+name))
		if err != nil {
			panic(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if l.has(withheld) {
			req.Header.Set("Authorization", "Bearer of the business")
		}
		resp, err := p.client.HTTPClient().Do(req)
		wasTold(err)
		if err != nil {
			l.fault("%s: all is well, and it is not made: %v", name, err)
			continue
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if made, _ := l.world.count(name); resp.StatusCode != http.StatusOK || made != 1 {
			l.fault("%s: all is well, and it has %d effects, and was answered by %d", name, made, resp.StatusCode)
		}
	}
}
