package request_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/providers"
)

// A success without a body, or with a page in a coding, is not the provider's answer. A person can still say what
// happened.
func TestASuccessThatAnotherServerGave(t *testing.T) {
	page := "<!doctype html><title>Sign in</title>"
	for _, row := range []struct {
		name  string
		reply reply
	}{
		{"nothing, of no type", says(200, "", "Content-Type", "")},
		{"nothing, as JSON", says(200, "", "Content-Type", "application/json")},
		{"nothing, as a stream of octets", says(202, "", "Content-Type", "application/octet-stream")},
		{"white space, as text", says(201, " \r\n\t", "Content-Type", "text/plain")},
		{"white space, until the connection's end", streams(200, -1, func() io.Reader { return strings.NewReader("\n\n") })},
		{"nothing, in a coding", says(200, coded(t, "zstd", ""), "Content-Encoding", "zstd")},
		{"white space, in a coding", says(200, coded(t, "gzip", "  "), "Content-Type", "", "Content-Encoding", "gzip")},
		{"a page of JSON's type, in a coding", says(200, coded(t, "deflate", page), "Content-Encoding", "deflate")},
		{"a page of no type, in a coding", says(200, coded(t, "gzip", page), "Content-Type", "", "Content-Encoding", "gzip")},
		{"a long page, in a coding", says(200, coded(t, "gzip", page+noise(4<<20)), "Content-Encoding", "gzip")},
		{"text, in two codings", says(200, coded(t, "gzip", coded(t, "zstd", "try later")), "Content-Type", "text/plain", "Content-Encoding", "zstd, gzip")},
		{"text, in a coding that is not known", says(200, "\x1b\x07", "Content-Type", "text/plain", "Content-Encoding", "br")},
		{"nothing, in another coding", says(200, coded(t, "gzip", ""), "Content-Encoding", "gzip")},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).Always(row.reply)
			p := start(t, l, onceward.Config{MaxResponseBody: 1 << 20})
			out := p.Ask(named(t, invoice), with("Accept-Encoding", "gzip, deflate, zstd, br"))
			require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
			require.Equal(t, onceward.StateUnknown, p.Recorded(onceward.Ref{ID: invoice}).State)
			_, err := p.ResolveAs(onceward.Ref{ID: invoice}, onceward.NotExecuted, nil)
			require.NoError(t, err)
		})
	}
}

// noise returns text that a coding hardly shortens.
func noise(n int) string {
	var b strings.Builder
	for x := uint32(1); b.Len() < n; x = x*1664525 + 1013904223 {
		b.WriteByte('!' + byte(x>>24)%90)
	}
	return b.String()
}

// The provider's own success counts in a coding, and without a body if its status has none or its table says so.
func TestASuccessOfTheProviderWithoutAPlainBody(t *testing.T) {
	listed := func(p *providers.Provider) { p.Answers = []string{"application/json", "201"} }
	for _, row := range []struct {
		name   string
		adjust func(*providers.Provider)
		reply  reply
	}{
		{"JSON in a coding", nil, says(200, coded(t, "zstd", paid), "Content-Encoding", "zstd")},
		{"JSON of no type, in a coding", nil, says(200, coded(t, "gzip", paid), "Content-Type", "", "Content-Encoding", "gzip")},
		{"a long one, in a coding", nil, says(200, coded(t, "gzip", `{"id":"1","pad":"`+strings.ReplaceAll(noise(4<<20), `"`, "'")+`"}`), "Content-Encoding", "gzip")},
		{"JSON in a coding that is not known", nil, says(200, "\x1b\x07", "Content-Encoding", "br")},
		{"no content", nil, says(204, "", "Content-Type", "")},
		{"no content, of a type", nil, says(205, "", "Content-Type", "text/plain")},
		{"created, and nothing else", listed, says(201, "", "Content-Type", "", "Location", "/v1/charges/ch_1")},
	} {
		virtual(t, row.name, func(t *testing.T) {
			table := providers.Stripe()
			if row.adjust != nil {
				row.adjust(&table)
			}
			p := start(t, (&line{}).Always(row.reply), onceward.Config{Providers: []providers.Provider{table}, MaxResponseBody: 1 << 20})
			out := p.Ask(named(t, invoice), with("Accept-Encoding", "gzip, deflate, zstd, br"))
			require.NoError(t, out.Err)
			assert.Equal(t, onceward.StateCompleted, p.Recorded(onceward.Ref{ID: invoice}).State)
		})
	}
}

// An answer whose coding breaks off is cut, whatever its type. The request is repeated under its key, or the record says
// that the answer is cut.
func TestAnAnswerThatEndsWithinItsCoding(t *testing.T) {
	for _, coding := range []string{"gzip", "deflate", "zstd"} {
		for _, media := range []string{"application/json", "text/plain", ""} {
			whole := coded(t, coding, `{"id":"ch_1","note":"`+strings.ReplaceAll(noise(3000), `"`, "'")+`"}`)
			whole = strings.Clone(whole)
			half := streams(200, -1, func() io.Reader { return strings.NewReader(whole[:len(whole)/2]) }, "Content-Type", media, "Content-Encoding", coding)
			virtual(t, coding+" as "+media, func(t *testing.T) {
				l := (&line{}).Then(half)
				p := start(t, l, onceward.Config{Providers: []providers.Provider{own()}})
				out := p.Ask(named(t, invoice), to(http.MethodPost, ownURL), with("Accept-Encoding", coding))
				require.NoError(t, out.Err)
				assert.Len(t, l.Sent(), 2)
			})
			virtual(t, coding+" as "+media+", and it can't be repeated", func(t *testing.T) {
				p := start(t, (&line{}).Then(half), onceward.Config{Providers: []providers.Provider{own(noRetention)}})
				_ = p.Ask(named(t, invoice), to(http.MethodPost, ownURL), with("Accept-Encoding", coding))
				op := p.Recorded(onceward.Ref{ID: invoice})
				require.Equal(t, onceward.StateCompleted, op.State)
				assert.True(t, op.Answer.Cut)
			})
		}
	}
}
