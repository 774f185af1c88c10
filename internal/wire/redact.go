package wire

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
)

// WithoutQuery removes u's query, which may hold a credential, from an error's text. Errors of a transport often
// repeat the URL.
func WithoutQuery(err error, u *url.URL) error {
	for {
		e, ok := err.(*url.Error)
		if !ok {
			break
		}
		err = e.Err // ours names the URL already
	}
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, query := range []string{u.RawQuery, (&url.URL{RawQuery: u.RawQuery}).Query().Encode()} {
		if query != "" {
			text = strings.ReplaceAll(text, query, "…")
			text = strings.ReplaceAll(text, strings.Trim(strconv.Quote(query), `"`), "…")
		}
	}
	if text == err.Error() {
		return err
	}
	return &redactedError{err, text}
}

// redactedError is an error under another text. errors.Is and errors.As look through it. Code that prints a chain by
// unwrapping does not look through the text.
type redactedError struct {
	err  error
	text string
}

func (e *redactedError) Error() string        { return e.text }
func (e *redactedError) Is(target error) bool { return errors.Is(e.err, target) }
func (e *redactedError) As(target any) bool   { return errors.As(e.err, target) }
