// Package listed has what packages onceward, webhook and consume say to each other about events that a provider lists.
package listed

import "time"

// MessageKey is the context key for a request's webhook.Message.
type MessageKey struct{}

// Once is a handler that does each message once, as long as it remembers the message.
type Once interface {
	// Remembers returns how long a message is remembered.
	Remembers() time.Duration
}
