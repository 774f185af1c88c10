module github.com/onceward/onceward/journal/mysql

go 1.26.0

require (
	github.com/go-sql-driver/mysql v1.10.1
	github.com/stretchr/testify v1.12.1
)

require github.com/klauspost/compress v1.20.3 // indirect

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/onceward/onceward v0.0.0
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)

replace github.com/onceward/onceward => ../..
