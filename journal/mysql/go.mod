module github.com/onceward/onceward/journal/mysql

go 1.26.0

require (
	github.com/cenkalti/backoff/v4 v4.3.0
	github.com/go-sql-driver/mysql v1.10.1
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/dunglas/httpsfv v1.1.2 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/gowebpki/jcs v1.0.2 // indirect
	github.com/hashicorp/go-cleanhttp v0.5.2 // indirect
	github.com/hashicorp/go-retryablehttp v0.7.8 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/onceward/onceward v0.0.0
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)

replace github.com/onceward/onceward => ../..
