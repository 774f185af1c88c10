package request_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

func coded(t *testing.T, coding, text string) string {
	t.Helper()
	var out bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "":
		return text
	case "gzip", "x-gzip":
		w = gzip.NewWriter(&out)
	case "deflate":
		w = zlib.NewWriter(&out)
	case "raw deflate":
		w, _ = flate.NewWriter(&out, 6)
	case "zstd":
		w, _ = zstd.NewWriter(&out)
	case "gzip that breaks off":
		whole := coded(t, "gzip", text)
		return whole[:len(whole)-4]
	}
	_, err := io.WriteString(w, text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.String()
}

// An answer's meaning is read whatever its length, up to the limit, and its coding.
func TestAnswerIsReadHoweverLongAndCoded(t *testing.T) {
	t.Parallel()
	lines := strings.Repeat(`{"sku":"x"},`, 20_000)
	long := `{"lines":[` + lines + `{}],"data":{"id":"1"}}`
	longest := `{"data":{"id":"1"}}`
	longest += strings.Repeat(" ", tables.MaxAnswerBody-len(longest))
	for _, row := range []struct {
		name, coding, header, text string
		limit                      int64
		state                      onceward.State
	}{
		{"long", "", "", long, 0, onceward.StateCompleted},
		{"long, and a failure", "", "", `{"lines":[` + lines + `{}],"errors":[{"code":"no"}]}`, 0, onceward.StateCancelled},
		{"over the limit of recorded answers", "", "", long, 1 << 10, onceward.StateCompleted},
		{"over that limit, and a failure", "", "", `{"lines":[` + lines + `{}],"errors":[{"code":"no"}]}`, 1 << 10, onceward.StateCancelled},
		{"over the limit of examined answers", "", "", `{"lines":[` + strings.Repeat(lines, 80) + `{}],"data":{"id":"1"}}`, 1 << 10, onceward.StateUnknown},
		{"gzip", "gzip", "gzip", long, 0, onceward.StateCompleted},
		{"gzip over the limit of recorded answers", "gzip", "GZIP", long, 100, onceward.StateCompleted},
		{"gzip, and a failure", "gzip", "gzip", `{"errors":[{"code":"no"}]}`, 0, onceward.StateCancelled},
		{"x-gzip", "x-gzip", "x-gzip", long, 0, onceward.StateCompleted},
		{"deflate", "deflate", "deflate", long, 0, onceward.StateCompleted},
		{"deflate without its frame", "raw deflate", "deflate", long, 0, onceward.StateCompleted},
		{"zstd", "zstd", "zstd", long, 0, onceward.StateCompleted},
		{"identity", "", "identity", long, 0, onceward.StateCompleted},
		{"none besides gzip", "gzip", "gzip, ", long, 0, onceward.StateCompleted},
		{"gzip, at the limit of examined answers", "gzip", "gzip", longest, 0, onceward.StateCompleted},
		{"gzip that breaks off", "gzip that breaks off", "gzip", long, 0, onceward.StateUnknown},
		{"a coding that is not known", "gzip", "br", long, 0, onceward.StateUnknown},
		{"of another coding than declared", "zstd", "gzip", long, 0, onceward.StateUnknown},
		{"a bomb", "gzip", "gzip", `{"data":{"id":"1"},"pad":"` + strings.Repeat("x", tables.MaxAnswerBody) + `"}`, 0, onceward.StateUnknown},
	} {
		virtual(t, row.name, func(t *testing.T) {
			text := coded(t, row.coding, row.text)
			var header []string
			if row.header != "" {
				header = []string{"Content-Encoding", row.header}
			}
			l := (&line{}).Then(says(200, text, header...))
			p := start(t, l, onceward.Config{Providers: []providers.Provider{own(byField)}, MaxResponseBody: row.limit})
			out := p.Ask(named(t, "order-1"), to(http.MethodPost, ownURL), with("Accept-Encoding", "gzip, deflate, zstd, br"))
			assert.Equal(t, row.state, p.Recorded(onceward.Ref{ID: "order-1"}).State)
			assert.Equal(t, 200, out.Status)
			if row.state == onceward.StateUnknown {
				require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown, "not a 200 beside it")
				return
			}
			require.NoError(t, out.Err)
			assert.True(t, text == out.Body, "the caller gets what came")
			assert.Equal(t, row.header, out.Header.Get("Content-Encoding"))
			if row.state == onceward.StateCompleted && row.limit == 0 {
				again := p.Ask(named(t, "order-1"), to(http.MethodPost, ownURL), with("Accept-Encoding", "gzip, deflate, zstd, br"))
				require.NoError(t, again.Err)
				assert.True(t, text == again.Body)
			}
		})
	}
}

// A long answer whose connection ends while it is read is marked as cut.
func TestLongInterruptedAnswerIsCut(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := (&line{}).Then(cuts(200, `{"pad":"`+strings.Repeat("x", 1<<20)+`","data":{"id":"1"}}`))
		p := start(t, l, onceward.Config{Providers: []providers.Provider{own(byField)}, MaxResponseBody: 1 << 10})
		out := p.Ask(named(t, "order-1"), to(http.MethodPost, ownURL))
		require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
		assert.Len(t, out.Body, 1<<10)
	})
}

// An interrupted answer's status decides neither an outcome nor a refusal if a missing field could have changed
// the verdict.
func TestInterruptedAnswerWithoutADecidingField(t *testing.T) {
	failure := providers.Rule{Status: 200, Field: "errors[].code", Verdict: providers.Rejected, Source: "a test"}
	busy := providers.Rule{Status: 409, Field: "busy", Verdict: providers.InFlight, Source: "a test"}
	there := providers.Rule{Status: 409, Pointer: "id", Verdict: providers.AlreadyDone, Source: "a test"}
	for name, row := range map[string]struct {
		status int
		rules  []providers.Rule
		limit  int64
		kind   error
	}{
		"that it failed":                {200, []providers.Rule{failure}, 0, onceward.ErrOutcomeUnknown},
		"that it failed, in a long one": {200, []providers.Rule{failure}, 10, onceward.ErrOutcomeUnknown},
		"that it is there":              {409, []providers.Rule{there, {Status: 409, Verdict: providers.Final, Source: "a test"}}, 0, onceward.ErrOutcomeUnknown},
		"that it is being worked on":    {409, []providers.Rule{busy, {Status: 409, Verdict: providers.Rejected, Source: "a test"}}, 0, onceward.ErrOutcomeUnknown},
		"that it may be":                {409, []providers.Rule{busy, {Status: 409, Verdict: providers.NotExecuted, Source: "a test"}}, 0, onceward.ErrOutcomeUnknown},
		"that its key is in use":        {409, []providers.Rule{busy, {Status: 409, Verdict: providers.Misuse, Source: "a test"}}, 0, onceward.ErrOutcomeUnknown},
		"what may have happened":        {409, []providers.Rule{{Status: 409, Verdict: providers.Indeterminate, Source: "a test"}}, 0, onceward.ErrOutcomeUnknown},
		"nothing":                       {409, []providers.Rule{{Status: 409, Verdict: providers.Final, Source: "a test"}}, 0, onceward.ErrAnswerGone},
	} {
		virtual(t, name, func(t *testing.T) {
			l := (&line{}).Then(cuts(row.status, `{"errors":[{"code":"no"}],"id":"1"}`))
			p := start(t, l, onceward.Config{MaxResponseBody: row.limit, Providers: []providers.Provider{own(noRetention, func(e *providers.Endpoint) { e.Rules = row.rules })}})
			for range 2 {
				require.ErrorIs(t, p.Ask(named(t, invoice), to("POST", ownURL)).Err, row.kind)
			}
			assert.Len(t, l.Sent(), 1)
			if a := p.Recorded(onceward.Ref{ID: invoice}).Answer; row.kind == onceward.ErrAnswerGone {
				assert.True(t, a.Cut)
				assert.NotEmpty(t, a.Body)
			}
		})
	}
}

// An interrupted answer counts if every value for the missing field gives the same verdict, as for a rate limit.
func TestInterruptedAnswerThatIsDecided(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		same := []providers.Rule{
			{Status: 429, Field: "code", Verdict: providers.NotExecuted, Source: "a test"},
			{Status: 429, Verdict: providers.NotExecuted, Source: "a test"},
		}
		l := (&line{}).Then(cuts(429, `{"code":"busy"}`))
		p := start(t, l, onceward.Config{Backoff: quick, Providers: []providers.Provider{own(noRetention, func(e *providers.Endpoint) { e.Rules = same })}})
		require.NoError(t, p.Ask(named(t, invoice), to("POST", ownURL)).Err)
		assert.Len(t, l.Sent(), 2)
	})
}

func TestAnAnswerHasFourCodingsAtTheMost(t *testing.T) {
	for codings, state := range map[string]onceward.State{
		"identity, identity, identity, gzip":           onceward.StateCompleted,
		"identity, identity, identity, identity, gzip": onceward.StateUnknown,
	} {
		p := start(t, (&line{}).Then(says(200, coded(t, "gzip", `{"data":{"id":"1"}}`), "Content-Encoding", codings)), onceward.Config{Providers: []providers.Provider{own(byField)}})
		_ = p.Ask(named(t, invoice), to("POST", ownURL))
		assert.Equal(t, state, p.Recorded(onceward.Ref{ID: invoice}).State, codings)
	}
}

// The status does not decide if the body can't be decoded, or ends within its JSON without a declared length. The
// request is repeated under its key, or unknown without one.
func TestAnswerThatIsUndecipherable(t *testing.T) {
	t.Parallel()
	const refusal, there = `{"errors":[{"code":"no"}],"id":"1"}`, `{"id":"1","object":"charge"}`
	failure := []providers.Rule{{Status: 200, Field: "errors[].code", Verdict: providers.Rejected, Source: "a test"}}
	already := []providers.Rule{
		{Status: 409, Pointer: "id", Verdict: providers.AlreadyDone, Source: "a test"},
		{Status: 409, Verdict: providers.Rejected, Source: "a test"},
	}
	half := func(status int, text string, length int64) reply {
		text = text[:len(text)/4]
		if length > 0 {
			length = int64(len(text))
		}
		return streams(status, length, func() io.Reader { return strings.NewReader(text) })
	}
	for name, row := range map[string]struct {
		reply reply
		rules []providers.Rule
	}{
		"a failure that ends with the connection":                  {half(200, refusal, -1), failure},
		"a failure of a length that was too short":                 {half(200, refusal, 1), failure},
		"a failure in an unknown coding":                           {says(200, refusal, "Content-Encoding", "br"), failure},
		"a failure in a coding that breaks off":                    {says(200, coded(t, "gzip that breaks off", refusal), "Content-Encoding", "gzip"), failure},
		"an object that is there, which ends with the connection":  {half(409, there, -1), already},
		"an object that is there, in an unknown coding":            {says(409, there, "Content-Encoding", "br"), already},
		"an object that is there, of another coding than declared": {says(409, there, "Content-Encoding", "zstd"), already},
		"a failure over the limit of examined answers, coded":      {says(200, coded(t, "gzip", `{"pad":"`+strings.Repeat("x", tables.MaxAnswerBody)+`",`+refusal[1:]), "Content-Encoding", "gzip"), failure},
	} {
		ask := func(t *testing.T, p *process) outcome {
			return p.Ask(named(t, invoice), to(http.MethodPost, ownURL), with("Accept-Encoding", "br, gzip, zstd"))
		}
		virtual(t, name, func(t *testing.T) {
			l := (&line{}).Then(row.reply)
			p := start(t, l, onceward.Config{Providers: []providers.Provider{own(noRetention, func(e *providers.Endpoint) { e.Rules = row.rules })}})
			for range 2 {
				require.ErrorIs(t, ask(t, p).Err, onceward.ErrOutcomeUnknown)
			}
			assert.Len(t, l.Sent(), 1)
		})
		virtual(t, name+", and its key is known", func(t *testing.T) {
			l := (&line{}).Then(row.reply)
			p := start(t, l, onceward.Config{Providers: []providers.Provider{own(func(e *providers.Endpoint) { e.Rules = row.rules })}})
			out := ask(t, p)
			require.NoError(t, out.Err)
			assert.Equal(t, paid, out.Body)
			require.Len(t, l.Sent(), 2)
			assert.Equal(t, l.Keys()[0], l.Keys()[1])
		})
	}
}

// An answer that ends within its JSON is requested again, or marked as cut if it can't be. An answer without JSON or
// without a body is taken as it is.
func TestAnswerThatEndsWithinItsJSON(t *testing.T) {
	for name, row := range map[string]struct {
		text string
		cut  bool
	}{
		"an object":               {`{"id":"ch_`, true},
		"a list":                  {"\n [1,2,", true},
		"within a word":           {`{"paid":tr`, true},
		"within a letter":         {"{\"name\":\"\xc3", true},
		"a whole one":             {`{"id":"ch_1"}`, false},
		"a whole one and more":    {`{"id":"ch_1"}{`, false},
		"nothing":                 {"", false},
		"nothing but white space": {" \n", false},
		"no object and no list":   {`"ch_`, false},
		"no JSON at all":          {`{id}`, false},
	} {
		virtual(t, name, func(t *testing.T) {
			l := (&line{}).Then(streams(200, -1, func() io.Reader { return strings.NewReader(row.text) }))
			p := start(t, l, onceward.Config{Providers: []providers.Provider{own(noRetention)}})
			out := p.Ask(named(t, invoice), to(http.MethodPost, ownURL))
			assert.Equal(t, row.cut, errors.Is(out.Err, onceward.ErrAnswerGone))
			assert.Equal(t, row.text, out.Body)
			op := p.Recorded(onceward.Ref{ID: invoice})
			assert.Equal(t, onceward.StateCompleted, op.State)
			assert.Equal(t, row.cut, op.Answer.Cut)
		})
		virtual(t, name+", of no type", func(t *testing.T) {
			l := (&line{}).Then(streams(200, -1, func() io.Reader { return strings.NewReader(row.text) }, "Content-Type", ""))
			p := start(t, l, onceward.Config{Providers: []providers.Provider{own(noRetention)}})
			assert.Equal(t, row.cut, p.Ask(named(t, invoice), to(http.MethodPost, ownURL)).Err != nil)
		})
		virtual(t, name+", of a page", func(t *testing.T) {
			l := (&line{}).Then(streams(200, -1, func() io.Reader { return strings.NewReader(row.text) }, "Content-Type", "text/plain"))
			p := start(t, l, onceward.Config{Providers: []providers.Provider{own(noRetention)}})
			require.NoError(t, p.Ask(named(t, invoice), to(http.MethodPost, ownURL)).Err)
		})
	}
}
