package onceward

import (
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
)

func init() {
	seam.Core = func(client any) any { return client.(*Client).core }
	seam.OperationOf = func(op *journal.Operation) any { return operationOf(op) }
}
