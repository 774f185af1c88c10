package onceward

import (
	"errors"
	"net/http"
	"reflect"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// transport is the RoundTripper that callers meet.
type transport struct{ client *Client }

// RoundTrip sends a request. The way of a request is Do of the engine.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	began := time.Now() // a duration, not a date
	a := t.client.engine.Do(req)
	if a.Passed {
		return a.Response, a.Err
	}
	if a.Response != nil {
		a.Response.Request = requestFor(req, &a)
	}
	if asked := t.client.trace.Asked; asked != nil {
		op, outcome := outcomeOf(&a)
		asked(req.Context(), op, outcome, a.Err, time.Since(began))
	}
	return a.Response, a.Err
}

// unsuitable tells why attempts can't go through a transport: below it, or in it, there
// is another client of this package, or one that repeats requests by itself.
func unsuitable(rt http.RoundTripper) error {
	return unsuitableIn(reflect.ValueOf(rt), 8)
}

var (
	roundTripperType = reflect.TypeFor[http.RoundTripper]()
	httpClientType   = reflect.TypeFor[*http.Client]()
	retryableType    = reflect.TypeFor[*retryablehttp.Client]()
)

// unsuitableIn looks through the fields of a RoundTripper for the next one. It only looks at types and pointers, since fields
// that are not exported are not for others to use.
func unsuitableIn(v reflect.Value, depth int) error {
	for v.IsValid() && v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if !v.IsValid() || depth == 0 {
		return nil
	}
	switch v.Type() {
	case reflect.TypeFor[*transport]():
		return errors.New("onceward: Config.HTTPClient is a client's own: give the one that it wraps")
	case retryableType: // its RoundTripper holds one
		return errors.New("onceward: Config.HTTPClient goes through go-retryablehttp, which would repeat attempts that the resend rule forbids: " +
			"give the http.Client below it; Config.Backoff is the policy of retries")
	case reflect.TypeFor[*http.Transport]():
		return nil // the end of the line
	}
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if !v.IsValid() || v.Kind() != reflect.Struct {
		return nil
	}
	for i := range v.NumField() {
		if f := v.Field(i); f.Type() == roundTripperType || f.Type() == httpClientType || f.Type() == retryableType || f.Kind() == reflect.Struct && v.Type().Field(i).Anonymous {
			if err := unsuitableIn(f, depth-1); err != nil {
				return err
			}
		}
	}
	return nil
}
