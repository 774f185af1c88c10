package run

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/internal/wire"
	"github.com/onceward/onceward/providers"
)

// fetch gets the object that an AlreadyDone answer points to, if the contract allows a fetch. The object becomes the
// attempt's answer if the table takes the response for a whole success from the provider. fetch sends one request
// without a key, within the attempt's time. The request is no attempt.
func (r *Run) fetch() {
	a := &r.attempt
	if a.judged.Verdict != providers.AlreadyDone || !r.route.Endpoint.FetchPointer || a.cut != nil || a.partial {
		return
	}
	to := below(r.target, a.judged.Pointer)
	if to == nil {
		return
	}
	ctx := r.newContext()
	defer ctx.Cancel(errEnded)
	requests := r.composer()
	req := requests.Frame(ctx, http.MethodGet, to)
	for _, name := range []string{"Content-Type", "Content-Encoding", "Content-Length"} {
		req.Header.Del(name)
	}
	req, err := requests.AddCredentials(ctx, req, nil)
	if req, err = r.admit(req, to, err); err != nil {
		return
	}
	req.Body, req.GetBody = nil, nil
	resp, err := r.client.Base.RoundTrip(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return
	}
	body, err := wire.ReadUpTo(resp.Body, r.client.MaxResponseBody, resp.ContentLength)
	if err != nil || int64(len(body)) > r.client.MaxResponseBody || wire.EndsWithin(resp.Header, body) {
		return
	}
	answer, read := wire.Legible(tables.Answer{Status: resp.StatusCode, Header: resp.Header, Later: true}, body, *r.route)
	judged := r.route.Classify(answer)
	if judged.Verdict != providers.Final || !read && r.route.Open(answer, judged.Verdict) {
		return
	}
	resp.Body = http.NoBody
	a.resp, a.body = resp, body
}

// below returns a resource's URL in a collection, or nil if a server may read the pointer as another path.
func below(u *url.URL, pointer string) *url.URL {
	if pointer == "" || pointer == "." || pointer == ".." || strings.ContainsAny(pointer, "/\\\x00;") {
		return nil
	}
	to := *u
	to.RawPath = strings.TrimSuffix(u.EscapedPath(), "/") + "/" + url.PathEscape(pointer)
	to.Path = strings.TrimSuffix(u.Path, "/") + "/" + pointer
	return &to
}
