package providers_test

import (
	"strings"
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
		build    = "POST https://codebuild.eu-central-1.amazonaws.com/\nContent-Type: application/x-amz-json-1.1\nX-Amz-Target: CodeBuild_20161006.StartBuild\n\n{\"projectName\":\"x\"}"
		policies = "POST https://verifiedpermissions.eu-central-1.amazonaws.com/\n" + json + "\nX-Amz-Target: VerifiedPermissions.CreatePolicyStore\n\n{}"
		start    = "POST https://mgn.example.com/v1/jobs\n\n{\"job\":1}"
		another  = "POST https://ec2.eu-central-1.amazonaws.com/" + form + "Action=StartInstances&InstanceId.1=i-1"

		ec2Error = "<Response><Errors><Error><Code>IdempotentParameterMismatch</Code></Error></Errors></Response>"
	)
	failure := func(kind string) string { return `{"__type":"` + kind + `","message":"…"}` }
	var credentials []row
	for _, name := range []string{"ExpiredTokenException", "IncompleteSignatureException", "InvalidSignatureException", "MissingAuthenticationTokenException", "UnrecognizedClientException", "AccessDeniedException"} {
		credentials = append(credentials,
			row{"not authenticated: " + name, 400, json, failure(name), rejected, rejected},
			row{"not authenticated, with a namespace: " + name, 400, json, failure("com.amazon.coral.service#" + name), rejected, rejected})
	}
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
		terms: []terms{
			{
				requests: []string{run, "POST https://ec2.us-east-1.amazonaws.com/" + form + "ClientToken=k&Action=RunInstances"},
				key:      "form field ClientToken", max: 64,
				retention: day, remembers: cleanFailures,
			},
			{
				requests: []string{transact},
				key:      "JSON field ClientRequestToken", min: 1, max: 36,
				retention: 10 * time.Minute, remembers: cleanFailures, guard: true, resent: true,
			},
			{
				requests:  []string{build},
				key:       "JSON field idempotencyToken",
				retention: 5 * time.Minute, remembers: successes,
			},
			{
				requests:  []string{policies},
				key:       "JSON field clientToken",
				retention: 8 * time.Hour, remembers: cleanFailures,
			},
			{
				requests: []string{start},
				key:      "JSON field clientToken", max: 64,
				retention: time.Hour, remembers: cleanFailures, handling: time.Minute, resent: true,
			},
			{requests: []string{
				another,
				"POST https://dynamodb.eu-central-1.amazonaws.com/\n" + json + "\nX-Amz-Target: DynamoDB_20120810.PutItem\n\n{}",
				"PUT https://mgn.example.com/v1/jobs/1",
			}},
		},
		noEffect: []string{"POST https://ec2.eu-central-1.amazonaws.com/" + form + "Action=DescribeInstances"},
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
		answers: []answers{
			{run, refusedRows},
			{run, passingRows},
			{run, badInput},
			{run, []row{
				{"an instance", 200, "Content-Type: text/xml", "<RunInstancesResponse/>", final, final},
				{"no capacity", 500, "Content-Type: text/xml;charset=UTF-8", ec2Failure("InsufficientInstanceCapacity"), notExecuted, notExecuted},
				{"no capacity, and another error", 500, "Content-Type: text/xml", strings.Replace(ec2Failure("InsufficientInstanceCapacity"), "</Error>", "</Error><Error><Code>InternalError</Code></Error>", 1), retry, retry},
				{"no capacity, cut short", 500, "Content-Type: text/xml", strings.TrimSuffix(ec2Failure("InsufficientInstanceCapacity"), "</Response>"), retry, retry},
				{"no capacity, by something that is no XML", 500, "Content-Type: text/html", ec2Failure("InsufficientInstanceCapacity"), retry, retry},
				{"another server error", 500, "Content-Type: text/xml", ec2Failure("InternalError"), retry, retry},
				{"too little capacity on a host, which may have launched all the same", 500, "Content-Type: text/xml", ec2Failure("InsufficientCapacityOnHost"), retry, retry},
				{"a conflict", 409, "Content-Type: text/xml", ec2Error, indeterminate, indeterminate},
				{"a page, by a load balancer", 200, "Content-Type: text/html", html, indeterminate, indeterminate},
				{"a mismatch, in XML", 400, "Content-Type: text/xml", ec2Error, final, indeterminate},
				{"a throttle of the JSON protocols", 400, json, failure("ThrottlingException"), notExecuted, notExecuted},
				{"a throttle with its namespace", 400, json, failure("com.amazon.coral.availability#ThrottlingException"), notExecuted, notExecuted},
				{"503", 503, "Content-Type: text/xml", "", retry, retry},
			}},
			{transact, credentials},
			{run, credentials},
			{build, credentials},
			{build, refusedRows},
			{build, passingRows},
			{build, []row{
				{"a conflict by its status", 409, json, failure("ConflictException"), indeterminate, indeterminate},
				{"a throttle", 400, json, failure("ThrottlingException"), notExecuted, notExecuted},
				{"a throttle with its namespace", 400, json, failure("com.amazon.coral.availability#ThrottlingException"), notExecuted, notExecuted},
				{"a refusal", 400, json, failure("InvalidInputException"), final, indeterminate},
			}},
			{another, credentials},
			{policies, credentials},
			{transact, refusedRows},
			{transact, passingRows},
			{transact, []row{
				{"written", 200, json, `{}`, final, final},
				{"in flight", 400, json, failure("com.amazonaws.dynamodb.v20120810#TransactionInProgressException"), inFlight, inFlight},
				{"in flight, without a namespace", 400, json, failure("TransactionInProgressException"), inFlight, inFlight},
				{"a request that is not valid", 400, json, failure("com.amazon.coral.validate#ValidationException"), final, indeterminate},
				{"cancelled", 400, json, failure("com.amazonaws.dynamodb.v20120810#TransactionCanceledException"), final, final},
				{"cancelled, without a namespace", 400, json, failure("TransactionCanceledException"), final, final},
				{"a mismatch", 400, json, failure("com.amazonaws.dynamodb.v20120810#IdempotentParameterMismatchException"), misuse, misuse},
				{"a mismatch, without a namespace", 400, json, failure("IdempotentParameterMismatchException"), misuse, misuse},
				{"throughput", 400, json, failure("com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"), retry, retry},
				{"throughput, without a namespace", 400, json, failure("ProvisionedThroughputExceededException"), retry, retry},
				{"a throttle with DynamoDB's namespace", 400, json, failure("com.amazonaws.dynamodb.v20120810#ThrottlingException"), notExecuted, notExecuted},
				{"a conflict, which this action does not document", 409, json, failure("ConflictException"), indeterminate, indeterminate},
				{"a limit", 400, json, failure("com.amazonaws.dynamodb.v20120810#RequestLimitExceeded"), retry, retry},
				{"a limit, without a namespace", 400, json, failure("RequestLimitExceeded"), retry, retry},
				{"a throttle", 400, json, failure("ThrottlingException"), notExecuted, notExecuted},
				{"a throttle with its namespace", 400, json, failure("com.amazon.coral.availability#ThrottlingException"), notExecuted, notExecuted},
				{"500", 500, json, failure("InternalServerError"), retry, retry},
			}},
			{another, refusedRows},
			{another, passingRows},
			{another, []row{
				{"a throttle of the JSON protocols", 400, json, failure("ThrottlingException"), notExecuted, notExecuted},
				{"a throttle with its namespace", 400, json, failure("com.amazon.coral.availability#ThrottlingException"), notExecuted, notExecuted},
				{"a conflict, if no token can be in use", 409, json, failure("ConflictException"), final, indeterminate},
			}},
			{policies, refusedRows},
			{policies, passingRows},
			{policies, []row{
				{"a mismatch, or a conflict", 400, json, failure("com.amazonaws.verifiedpermissions#ConflictException"), indeterminate, indeterminate},
				{"a mismatch, or a conflict, without a namespace", 400, json, failure("ConflictException"), indeterminate, indeterminate},
				{"a throttle", 400, json, failure("ThrottlingException"), notExecuted, notExecuted},
				{"a throttle with its namespace", 400, json, failure("com.amazon.coral.availability#ThrottlingException"), notExecuted, notExecuted},
				{"a conflict by its status", 409, json, failure("ConflictException"), indeterminate, indeterminate},
				{"a refusal", 400, json, failure("ValidationException"), final, indeterminate},
			}},
		},
		ownKey: []answers{
			{run, ownKeyRows(`{"__type":"ConflictException"}`)},
			{build, ownKeyRows(`{"__type":"ConflictException"}`)},
			{transact, ownKeyRows(`{"__type":"ConflictException"}`)},
			{policies, ownKeyRows(`{"__type":"ConflictException"}`)},
		},
	}
}

func ec2Failure(code string) string {
	return `<?xml version="1.0" encoding="UTF-8"?>` + "\n<Response><Errors><Error><Code>" + code + "</Code><Message>…</Message></Error></Errors><RequestID>1</RequestID></Response>"
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
