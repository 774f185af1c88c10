package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/console"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/planted"
	"github.com/onceward/onceward/internal/receipts"
	"github.com/onceward/onceward/journal"
)

var (
	reservedKey  = receipts.Name{Tenant: planted.Tenant, Key: planted.ReservedKey}
	unknownEvent = receipts.Name{Consumer: planted.Consumer, Source: planted.Source, Replay: "2026", Key: planted.UnknownEvent}
)

// Receipts are listed newest first, and by each filter. Receipts of unknown outcome need attention.
func TestReceipts(t *testing.T) {
	s := openReceiving(t, "/", nil)
	count := func(path string) int {
		page := s.get(path)
		require.Equal(t, http.StatusOK, page.StatusCode, path)
		return strings.Count(page.text, `href="receipt?h=`)
	}
	for path, want := range map[string]int{
		"receipts": 5, "receipts?state=reserved": 2, "receipts?state=completed": 3, "receipts?tenant=" + planted.Tenant: 2, "receipts?consumer=" + planted.Consumer: 2,
		"receipts?endpoint=refunds.create": 1, "receipts?older=30m": 5, "receipts?older=5h": 0, "receipts?at=3": 2, "receipts?at=3&order=oldest": 2, "attention": 2,
	} {
		assert.Equal(t, want, count(path), path)
	}
	list := s.get("receipts").text
	assert.Less(t, strings.Index(list, "receipt?h=5"), strings.Index(list, "receipt?h=1"), "the newest first")
	assert.Contains(t, s.get("").text, "2 receipts are reserved without an answer")
	for _, path := range []string{"receipts?state=odd", "receipts?older=x", "receipts?at=x", "receipt", "receipt?h=x"} {
		assert.Equal(t, http.StatusBadRequest, s.get(path).StatusCode, path)
	}
	assert.Equal(t, http.StatusNotFound, s.get("receipt?h=4711").StatusCode)

	none := open(t, "/", nil)
	assert.Contains(t, none.get("receipts").text, "None.")
	assert.Equal(t, http.StatusNotFound, none.get("receipt?h=1").StatusCode)
	assert.NotContains(t, none.get("").text, "reserved")
	assert.NotContains(t, none.get("attention").text, "<h2>Receipts</h2>")
}

// The 51st receipt is on the second page, in both orders.
func TestPagesOfReceipts(t *testing.T) {
	s := openReceiving(t, "/", nil)
	tx, err := s.journal.BeginTx(t.Context())
	require.NoError(t, err)
	for i := range 50 {
		name := receipts.Name{Tenant: "globex", Key: strings.Repeat("k", i+8)}
		_, err := s.journal.ReceiveTx(t.Context(), tx, machine.ReceiptEvent{
			Kind: machine.ReceiptRecord, ReceiptKey: name.Receipt(), At: time.Now(), Place: "payments.create", Fingerprint: "f", Keep: 1 << 40,
			Same: func(*journal.Receipt) (bool, error) { return true, nil }, Answer: &journal.Answer{Status: 200},
		})
		require.NoError(t, err)
	}
	require.NoError(t, tx.Commit(t.Context()))
	for order, last := range map[string]string{"newest": "receipt?h=1\"", "oldest": "receipt?h=55\""} {
		first := s.get("receipts?order=" + order).text
		assert.Equal(t, 50, strings.Count(first, `href="receipt?h=`))
		assert.NotContains(t, first, last)
		next := links.FindAllStringSubmatch(first[strings.Index(first, `class="next"`):], 1)
		require.NotEmpty(t, next)
		second := s.get(strings.ReplaceAll(next[0][1], "&amp;", "&")).text
		assert.Equal(t, 5, strings.Count(second, `href="receipt?h=`))
		assert.Contains(t, second, last)
	}
}

func TestRevealReceipt(t *testing.T) {
	s := openReceiving(t, "/", nil)
	assert.Equal(t, http.StatusBadRequest, s.post("revealreceipt", url.Values{"h": {"1"}}).StatusCode, "a reason is needed")
	a := s.post("revealreceipt", url.Values{"h": {"1"}, "because": {"a dispute"}})
	assert.Equal(t, http.StatusOK, a.StatusCode)
	assert.Contains(t, a.text, "2000")
	assert.NotContains(t, a.text, planted.Card)
	assert.NotContains(t, a.text, planted.Secret)
	assert.Contains(t, s.log.String(), "a dispute")
}

func TestResolveReceipt(t *testing.T) {
	s := openReceiving(t, "/", nil)
	get := func(name receipts.Name) (journal.Receipt, error) {
		return s.journal.GetReceipt(t.Context(), name.Receipt())
	}
	form := func(more ...string) url.Values {
		v := url.Values{"h": {"2"}, "claim": {"1"}, "as": {"executed"}, "status": {"201"}, "type": {"application/json"}, "body": {`{"refunded":true}`}, "because": {"the ledger has it"}}
		for i := 0; i < len(more); i += 2 {
			v.Set(more[i], more[i+1])
		}
		return v
	}
	for name, row := range map[string]struct {
		form   url.Values
		status int
	}{
		"no reason":                 {form("because", " "), http.StatusBadRequest},
		"an invalid outcome":        {form("as", "maybe"), http.StatusBadRequest},
		"the version that was seen": {form("claim", ""), http.StatusBadRequest},
		"a status":                  {form("status", "1000"), http.StatusBadRequest},
		"a later life":              {form("claim", "2"), http.StatusConflict},
		"a known receipt":           {form("h", "1"), http.StatusConflict},
		"a missing receipt":         {form("h", "4711"), http.StatusNotFound},
	} {
		assert.Equal(t, row.status, s.post("resolvereceipt", row.form).StatusCode, name)
	}
	r, err := get(reservedKey)
	require.NoError(t, err)
	require.Equal(t, journal.ReceiptReserved, r.State)
	assert.Contains(t, s.get("receipt?h=2").text, `action="resolvereceipt"`)
	assert.NotContains(t, s.get("receipt?h=1").text, `action="resolvereceipt"`)

	a := s.post("resolvereceipt", form())
	require.Equal(t, http.StatusSeeOther, a.StatusCode, a.text)
	assert.Contains(t, s.get(a.Header.Get("Location")).text, "Your decision is recorded.")
	r, err = get(reservedKey)
	require.NoError(t, err)
	assert.Equal(t, 201, r.Answer.Status)
	assert.Equal(t, `{"refunded":true}`, string(r.Answer.Body))
	assert.Equal(t, "resolved by ann: the ledger has it", r.Cause)

	a = s.post("resolvereceipt", url.Values{"h": {"5"}, "claim": {"1"}, "as": {"not_executed"}, "because": {"the ledger has none"}})
	require.Equal(t, http.StatusSeeOther, a.StatusCode, a.text)
	assert.Contains(t, s.get(a.Header.Get("Location")).text, "Its key is free.")
	_, err = get(unknownEvent)
	require.ErrorIs(t, err, journal.ErrNotFound)
	assert.NotContains(t, s.get("attention").text, "<h2>Receipts</h2>")
	assert.Contains(t, s.log.String(), "receipt resolved")

	off := openReceiving(t, "/", func(o *console.Options) { o.Actions = []console.Action{console.Resolve} })
	assert.Equal(t, http.StatusForbidden, off.post("resolvereceipt", form()).StatusCode, "it is an action of its own")
	assert.NotContains(t, off.get("receipt?h=2").text, `method="post"`)
}
