package sim

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/onceward/onceward/journal"
)

// canary is in every credential of a life, and in every cookie that a provider sets. It
// belongs on the wire and nowhere else.
const canary = "canary-5b8f0e"

func (l *life) keepsSecret(what, text string) {
	if strings.Contains(text, canary) {
		l.fault("a credential is in %s: %s", what, text)
	}
}

// logged receives the log of a life's processes.
type logged struct{ life *life }

func (w logged) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte(canary)) {
		w.life.fault("a credential is in the log: %s", line)
	}
	return len(line), nil
}

// recorded returns an operation record's text.
func recorded(op *journal.Operation) string {
	text := fmt.Sprint(op.Cause, op.Request.URL, op.Request.Header, string(op.Request.Body), op.Request.WithheldHeaders)
	if op.Answer != nil {
		text += fmt.Sprint(op.Answer.Header, op.Answer.Trailer, string(op.Answer.Body))
	}
	return text
}
