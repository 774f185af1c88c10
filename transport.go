package onceward

import (
	"errors"
	"net/http"
	"reflect"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// transport is the client's RoundTripper.
type transport struct{ client *Client }

// RoundTrip sends a request through the engine.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	began := time.Now() // a duration, not a date
	a := t.client.engine.Do(req)
	if a.Forwarded {
		return a.Response, a.Err
	}
	if a.Response != nil {
		a.Response.Request = requestFor(req, &a)
	}
	if asked := t.client.trace.Asked; asked != nil {
		op, result := callResult(&a)
		asked(req.Context(), op, result, a.Err, time.Since(began))
	}
	return a.Response, a.Err
}

// unsuitable returns an error if a transport contains another client of this package, or one that repeats requests by
// itself.
func unsuitable(rt http.RoundTripper) error {
	return unsuitableIn(reflect.ValueOf(rt), 8)
}

var (
	roundTripperType = reflect.TypeFor[http.RoundTripper]()
	httpClientType   = reflect.TypeFor[*http.Client]()
	retryableType    = reflect.TypeFor[*retryablehttp.Client]()
)

// unsuitableIn searches the fields of a RoundTripper for the next one. It reads only types and pointers, since
// unexported fields are not for other packages.
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
		return nil // it wraps no other
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
