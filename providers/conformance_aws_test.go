package providers_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/providers"
)

func awsContract() contract {
	const (
		form = "\nContent-Type: application/x-www-form-urlencoded; charset=utf-8\n\n"
		json = "Content-Type: application/x-amz-json-1.0"

		run      = "POST https://ec2.eu-central-1.amazonaws.com/" + form + "Action=RunInstances&Version=2016-11-15&MinCount=1"
		transact = "POST https://dynamodb.eu-central-1.amazonaws.com/\n" + json + "\nX-Amz-Target: DynamoDB_20120810.TransactWriteItems\n\n{\"TransactItems\":[]}"
		start    = "POST https://mgn.example.com/v1/jobs\n\n{\"job\":1}"
	)
	return contract{
		adapter: providers.AWS(
			providers.AWSRunInstances("eu-central-1"),
			providers.AWSRunInstances("us-east-1"),
			providers.AWSTransactWriteItems("eu-central-1"),
			providers.AWSStartBuild("eu-central-1"),
			providers.AWSCreatePolicyStore("eu-central-1"),
			providers.AWSAction{Host: "ec2.eu-central-1.amazonaws.com", Name: "DescribeInstances", NoEffect: true, Source: "the caller"},
			providers.AWSAction{Host: "mgn.example.com", Pattern: "POST /v1/jobs", Token: "clientToken", MaxLength: 64, Retention: time.Hour, Remembers: cleanFailures, HandlingTime: time.Minute, Source: "the caller"},
		),
		sent: []sent{
			{
				run,
				"POST / HTTP/1.1\nHost: ec2.eu-central-1.amazonaws.com\nContent-Length: 98\nContent-Type: application/x-www-form-urlencoded; charset=utf-8\n\nAction=RunInstances&Version=2016-11-15&MinCount=1&ClientToken=" + conformanceKey,
			},
			{
				transact,
				"POST / HTTP/1.1\nHost: dynamodb.eu-central-1.amazonaws.com\nContent-Length: 80\nContent-Type: application/x-amz-json-1.0\nX-Amz-Target: DynamoDB_20120810.TransactWriteItems\n\n{\"ClientRequestToken\":\"" + conformanceKey + "\",\"TransactItems\":[]}",
			},
			{
				start,
				"POST /v1/jobs HTTP/1.1\nHost: mgn.example.com\nContent-Length: 62\n\n{\"clientToken\":\"" + conformanceKey + "\",\"job\":1}",
			},
		},
	}
}

func TestAWSDescribesNothingWithoutActions(t *testing.T) {
	require.Error(t, providers.AWS().Validate())
}

// AWS keeps one endpoint for an action in several regions.
func TestAWSActionInSeveralRegions(t *testing.T) {
	one := providers.AWS(providers.AWSRunInstances("eu-central-1"))
	two := providers.AWS(providers.AWSRunInstances("eu-central-1"), providers.AWSRunInstances("us-east-1"))
	assert.Equal(t, one.Endpoints, two.Endpoints)
	assert.Equal(t, []string{"ec2.eu-central-1.amazonaws.com", "ec2.us-east-1.amazonaws.com"}, two.Hosts)
}

// AWS rows that contradict each other are refused.
func TestAWSRowsThatContradict(t *testing.T) {
	row := providers.AWSRunInstances("eu-central-1")
	other := row
	other.Host, other.Retention = "ec2.us-east-1.amazonaws.com", time.Hour
	require.ErrorContains(t, providers.AWS(row, other).Validate(), "twice")
}
