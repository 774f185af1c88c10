package providers_test

import (
	"fmt"
	"time"

	"github.com/onceward/onceward/providers"
)

func ExampleAWS() {
	p := providers.AWS(
		providers.AWSTransactWriteItems("eu-central-1"),
		providers.AWSAction{
			Host:      "fsx.eu-central-1.amazonaws.com",
			Target:    "AWSSimbaAPIService_v20180301.CreateBackup",
			Token:     "ClientRequestToken",
			MaxLength: 63,
			Retention: time.Hour, // the time that AWS has told you
			Remembers: providers.Successes,
		},
	)
	fmt.Println(p.Validate(), p.Hosts)
	// Output: <nil> [dynamodb.eu-central-1.amazonaws.com fsx.eu-central-1.amazonaws.com]
}
