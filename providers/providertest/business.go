package providertest

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
)

// Objects returns a business that creates an object for every request. Its id is prefix and a number. The other fields
// are those in the request's JSON body or form, with metadata[a] as the member a of metadata. It is safe for concurrent
// use.
func Objects(prefix string) http.Handler {
	return &objects{prefix: prefix}
}

// ObjectsIn is [Objects] for an API that answers with the object in the member of a given name.
func ObjectsIn(member, prefix string) http.Handler {
	return &objects{prefix: prefix, member: member}
}

// objects is the handler that Objects returns.
type objects struct {
	prefix string
	member string // of the answer; empty: the whole answer
	made   atomic.Int64
}

func (o *objects) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, http.StatusText(http.StatusBadRequest), http.StatusBadRequest)
		return
	}
	members := map[string]any{}
	if body, is := parsed(text); is {
		if of, is := body.(map[string]any); is {
			members = of
		}
	} else if form, err := url.ParseQuery(string(text)); err == nil {
		for name := range form {
			steps := strings.Split(strings.ReplaceAll(strings.ReplaceAll(name, "[]", ""), "]", ""), "[")
			members = put(members, steps, form.Get(name), itself).(map[string]any)
		}
	}
	if within, is := members[o.member].(map[string]any); is {
		members = within
	}
	members["id"] = fmt.Sprintf("%s%d", o.prefix, o.made.Add(1))
	if o.member != "" {
		members = map[string]any{o.member: members}
	}
	answerOf(http.StatusOK, members).write(w)
}
