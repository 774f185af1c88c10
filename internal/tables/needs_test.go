package tables_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

func TestBodyIsReadOnlyIfItMayDecide(t *testing.T) {
	rt := ruled(t,
		providers.Rule{Status: 200, Header: "X-Done", Verdict: providers.Final},
		providers.Rule{Status: 200, Field: "errors[].code", Verdict: providers.Rejected},
		providers.Rule{Status: 200, Verdict: providers.Final},
		providers.Rule{Status: 402, Verdict: providers.Final},
		providers.Rule{Status: 409, On: providers.LaterAttempt, Field: "id", Verdict: providers.InFlight},
		providers.Rule{Status: 409, Verdict: providers.Misuse},
		providers.Rule{Status: 410, Pointer: "id", Verdict: providers.AlreadyDone},
	)
	for _, tc := range []struct {
		status int
		header http.Header
		later  bool
		needed bool
	}{
		{200, nil, false, true},
		{200, http.Header{"X-Done": {"1"}}, false, false},
		{402, nil, false, false},
		{409, nil, false, false},
		{409, nil, true, true},
		{410, nil, false, true},
		{500, nil, false, false},
	} {
		assert.Equal(t, tc.needed, rt.NeedsBody(tables.Answer{Status: tc.status, Header: tc.header, Later: tc.later}), tc)
	}
}

// An answer that no table describes is read without its body.
func TestUnlistedHostNeedsNoBody(t *testing.T) {
	rt := route(t, newRouter(t, own()), "POST", "https://elsewhere.example.com/v1/transfers")
	assert.False(t, rt.NeedsBody(tables.Answer{Status: 200}))
}

// A body that ends too soon has no fields. A body that is nested too deep has none either.
func TestCutBodyHasNoFields(t *testing.T) {
	rt := ruled(t, providers.Rule{Status: 200, Field: "code", Equals: "no", Verdict: providers.Rejected})
	objects := func(deep int) string {
		return `{"code":"no","a":` + strings.Repeat(`{"b":`, deep) + "1" + strings.Repeat("}", deep) + "}"
	}
	for body, want := range map[string]providers.Verdict{
		`{"code":"no"}`:                    providers.Rejected,
		`{"code":"no",`:                    providers.Final,
		`{"code":"no","a`:                  providers.Final,
		`{"code":"no","a"`:                 providers.Final,
		`{"code":"no","a":`:                providers.Final,
		`{"code":"no","a":1`:               providers.Final,
		`{"code":"no","a":[`:               providers.Final,
		`{"code":"no","a":[1,`:             providers.Final,
		`{"code":"no","a":[1]`:             providers.Final,
		`{"code":"no","a":[[1]`:            providers.Final,
		`{"code":"no","a":"\ud83d\ude00"}`: providers.Rejected,
		`{"code":"no","a":{ }}`:            providers.Rejected,
		`{ "code" : "no" }`:                providers.Rejected,
		objects(199):                       providers.Rejected,
		objects(200):                       providers.Final,
	} {
		got := rt.Classify(tables.Answer{Status: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(body)})
		assert.Equal(t, want.String(), got.Verdict.String(), "%.40s", body)
	}
}

// A body of the greatest length that is searched is read whole, even if every part of it could match.
func TestALongBodyIsRead(t *testing.T) {
	rt := ruled(t, providers.Rule{Status: 200, Field: "errors[].code", Equals: "no", Verdict: providers.Misuse})
	body := []byte(`{"errors":[`)
	for len(body) < tables.MaxAnswerBody-100 {
		body = append(body, `{"code":1},`...)
	}
	body = append(body, `{"code":"no"}]}`...)
	// A search that reads the rest of the body for each item would not end within a test.
	assert.Equal(t, providers.Misuse, rt.Classify(tables.Answer{Status: 200, Body: body, Header: http.Header{"Content-Type": {"application/json"}}}).Verdict)
}
