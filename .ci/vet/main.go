// Command vet runs go vet's checks on packages that it reads from source, so that nothing must be compiled first.
package main

import (
	"golang.org/x/tools/go/analysis/multichecker"
	"golang.org/x/tools/go/analysis/suite/vet"
)

func main() { multichecker.Main(vet.Suite...) }
