// Package queue shows a plain consumer for a queue that delivers at least once. The queue is a folder: each file is a
// message, and removing a file acknowledges it.
package queue

import (
	"context"
	"os"
	"path/filepath"

	"github.com/onceward/onceward"
)

// Operation names a message's operation. A redelivered message has the same name. The queue is the scope, which keeps
// two queues' messages apart.
func Operation(ctx context.Context, queue, messageID string) context.Context {
	return onceward.WithOperation(onceward.WithScope(ctx, "queue/"+queue), messageID)
}

// Consume handles every message in the folder, oldest name first, and acknowledges it afterwards. A message that handle
// fails on stays for the next call.
func Consume(ctx context.Context, folder string, handle func(ctx context.Context, message []byte) error) error {
	files, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, file := range files {
		path := filepath.Join(folder, file.Name())
		message, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := handle(Operation(ctx, "charges", file.Name()), message); err != nil {
			return err
		}
		if err := os.Remove(path); err != nil { // the acknowledgement
			return err
		}
	}
	return nil
}
