package providers

import (
	"reflect"
	"slices"
	"time"
)

// AWSAction is what one action of an AWS service promises of its client token: a
// row of the table that [AWS] makes a [Provider] of. AWS has no contract of its
// own, only one for each action, so that a program lists those that it calls.
//
// An action of the Query protocol (EC2) has a Name, one of the JSON protocols
// (DynamoDB) a Target, one of a REST service a Pattern.
type AWSAction struct {
	// Host is the service's endpoint in one region, as in
	// "ec2.eu-central-1.amazonaws.com". A token counts in its own region.
	Host string

	// Name is the value of the parameter Action.
	Name string

	// Target is the value of the header X-Amz-Target.
	Target string

	// Pattern is the pattern of [Endpoint]; empty means "POST /". The Query
	// protocol's requests have to be POSTs, as the SDKs make them: a GET is taken
	// for safe on every host.
	Pattern string

	// NoEffect marks an action that only reads.
	NoEffect bool

	// Token names the parameter that is the client token: a form field of the
	// Query protocol, else a dotted path into the JSON body. Empty means that
	// the action has none.
	Token string

	// MinLength and MaxLength bound the token's length; 0 means no bound.
	MinLength, MaxLength int

	// Retention, Remembers, InFlightGuard and HandlingTime are those of
	// [Endpoint]. Few services publish them all; what is left out is not
	// claimed, and the action is then not sent again once it may have run.
	Retention     time.Duration
	Remembers     Memory
	InFlightGuard bool
	HandlingTime  time.Duration

	// SecretResponse marks answers that contain a secret.
	SecretResponse bool

	// Object and Lookups are those of [Endpoint]: what the action creates, and how that is
	// found again. What a look-up asks for has to be listed too, with NoEffect.
	Object  string
	Lookups []Lookup

	// Rules come before those that all actions have in common.
	Rules []Rule

	// Source names where the facts come from.
	Source string
}

// AWS describes the AWS actions that are listed, on the hosts that they name.
// [AWSRunInstances], [AWSTransactWriteItems], [AWSStartBuild] and
// [AWSCreatePolicyStore] are documented rows to begin with. Without any action
// there is nothing to describe, and [Provider.Validate] says so.
//
// A listed action is known by its name on every listed host. Where two services
// have an action of the same name with different facts, call AWS for each and give
// one of them another Name. Every other action on these hosts is taken to have an
// effect and no token: list what only reads with NoEffect, or send it through
// another http.Client. With AWSRunInstances, DescribeInstances is listed as what only reads,
// since it is looked up by that.
//
// AWS signs requests over their bodies (SigV4), the token included, and the SDKs
// make up a new token per call where none is set. An operation that brings its
// first token back has to be signed again: sign in Authorize, which sees the
// request as it is sent, on every attempt. The SDKs' own retries are best switched
// off.
//
// Errors of the JSON protocols are read by their type, with or without a namespace
// in front (__type); those of the Query protocol are XML and only known by their
// status. A 4xx is the operation's answer on a first attempt and proves nothing on
// a later one, since a mismatch, a throttle and a conflict with oneself are 400 at
// one service or another; a throttle that says its name was not executed. An error
// that says that the access key, its token or the signature isn't taken is one of the
// credential, by 400 as by 403. For an action with a token 409 is Indeterminate,
// unless its Rules know better, but on a first attempt with a key that was made for it.
func AWS(actions ...AWSAction) Provider {
	p := Provider{
		Name:    "aws",
		Answers: []string{"application/json", "application/x-amz-json-1.0", "application/x-amz-json-1.1", "text/xml", "application/xml"},
		Source:  sourceAWS,
	}
	for _, a := range actions {
		if !slices.Contains(p.Hosts, a.Host) {
			p.Hosts = append(p.Hosts, a.Host)
		}
		e := a.endpoint()
		// The same row for another region is the same endpoint; rows that
		// contradict each other are left for Validate to find.
		if !slices.ContainsFunc(p.Endpoints, func(other Endpoint) bool { return reflect.DeepEqual(e, other) }) {
			p.Endpoints = append(p.Endpoints, e)
		}
	}
	if e := awsDescribeInstances.endpoint(); looksAtInstances(actions) &&
		!slices.ContainsFunc(p.Endpoints, func(other Endpoint) bool { return other.Action == e.Action && other.Pattern == e.Pattern }) {
		p.Endpoints = append(p.Endpoints, e)
	}
	if len(actions) > 0 {
		for _, pattern := range []string{awsRoot, "/"} {
			p.Endpoints = append(p.Endpoints, Endpoint{Pattern: pattern, Rules: awsRules, Source: sourceAWS + ": not listed"})
		}
	}
	return p.Clone()
}

// awsRoot has the actions of the Query and the JSON protocols, which know one path
// only, and what is not listed.
const awsRoot = "POST /"

func (a AWSAction) endpoint() Endpoint {
	e := Endpoint{
		Pattern:        a.Pattern,
		NoEffect:       a.NoEffect,
		Retention:      a.Retention,
		Remembers:      a.Remembers,
		InFlightGuard:  a.InFlightGuard,
		HandlingTime:   a.HandlingTime,
		SecretResponse: a.SecretResponse,
		Object:         a.Object,
		Lookups:        a.Lookups,
		Source:         a.Source,
	}
	if e.Pattern == "" {
		e.Pattern = awsRoot
	}
	place := KeyJSONField
	switch {
	case a.Name != "":
		place = KeyFormField
		e.Action = Action{Place: ActionField, Name: "Action", Value: a.Name}
	case a.Target != "":
		e.Action = Action{Place: ActionHeader, Name: "X-Amz-Target", Value: a.Target}
	}
	if a.Token != "" {
		e.Key = Key{Place: place, Name: a.Token, MinLength: a.MinLength, MaxLength: a.MaxLength}
	}
	switch {
	case a.NoEffect:
	case a.Token != "":
		e.Rules = slices.Concat(a.Rules, awsConflict, awsRules)
	default:
		e.Rules = slices.Concat(a.Rules, awsRules)
	}
	return e
}

// AWSRunInstances is EC2's RunInstances: ClientToken, at most 64 ASCII characters,
// valid for at least 24 hours after the instance has been terminated, for which
// Retention stands by 24 hours. The operation completes no more than once. How a
// second request is answered while the first is worked on is not published, so
// that nothing is sent again once it may have run.
//
// What became of a request is looked up by its token: the reservation, which is the launch
// request, for one instance or many. Its instances may have been stopped or terminated since, each
// by itself, so that their states say nothing of the request. That a token has one reservation is
// our reading; two are for a person to look at. Instances are shown for less than an hour, usually,
// once they are terminated, which is less than it takes to prove an absence: a reservation that is not
// found may have been launched, and Validate refuses a copy that states an Absent for it. The credential
// needs the permission ec2:DescribeInstances.
func AWSRunInstances(region string) AWSAction {
	return AWSAction{
		Host:      "ec2." + region + ".amazonaws.com",
		Name:      "RunInstances",
		Token:     "ClientToken",
		MaxLength: 64,
		Retention: 24 * time.Hour,
		Remembers: SuccessesCleanFailures,
		Object:    "reservation",
		Lookups: []Lookup{{
			By:     ByKey,
			Method: "POST",
			Path:   "/",
			Body:   "Action=DescribeInstances&Version=2016-11-15&Filter.1.Name=client-token&Filter.1.Value.1={key}&MaxResults=100",
			XML:    true,
			Items:  "reservationSet[]",
			Same:   []Same{{Field: "instancesSet[].clientToken", Is: "{key}"}},
			ID:     "reservationId",
			Next:   Paging{Style: PageCursor, Param: "NextToken", Cursor: "nextToken", Size: 100},
			// It may have been terminated at once.
			Horizon: time.Hour,
			Needs:   "ec2:DescribeInstances",
			Source:  sourceEC2Look,
		}},
		Source: "docs.aws.amazon.com/AWSEC2/latest/APIReference/Run_Instance_Idempotency.html [D-old]: completes no more than one time; in flight: [?]",
	}
}

// awsDescribeInstances is what EC2's reservations are looked up by.
var awsDescribeInstances = AWSAction{Name: "DescribeInstances", NoEffect: true, Source: sourceEC2Look}

// looksAtInstances reports whether a look-up of EC2's RunInstances is among the actions'.
func looksAtInstances(actions []AWSAction) bool {
	return slices.ContainsFunc(actions, func(a AWSAction) bool { return a.Name == "RunInstances" && len(a.Lookups) > 0 })
}

// AWSTransactWriteItems is DynamoDB's TransactWriteItems: ClientRequestToken, 1 to
// 36 characters, valid for 10 minutes after the first request has completed.
// Several identical calls have the effect of one, and a transaction succeeds or
// fails as a whole. One that is cancelled (TransactionCanceledException) is the
// operation's answer on a later attempt too: had an earlier one succeeded, the same
// token would be answered with its success, and one in flight says so.
func AWSTransactWriteItems(region string) AWSAction {
	const source = "aws-sdk-go-v2 service/dynamodb v1.73.0 api_op_TransactWriteItems.go and types/errors.go [D]"
	a := AWSAction{
		Host:          "dynamodb." + region + ".amazonaws.com",
		Target:        "DynamoDB_20120810.TransactWriteItems",
		Token:         "ClientRequestToken",
		MinLength:     1,
		MaxLength:     36,
		Retention:     10 * time.Minute,
		Remembers:     SuccessesCleanFailures,
		InFlightGuard: true,
		Source:        source,
	}
	a.Rules = slices.Concat(
		awsError(400, "com.amazonaws.dynamodb.v20120810", "TransactionInProgressException", InFlight, source),
		awsError(400, "com.amazonaws.dynamodb.v20120810", "IdempotentParameterMismatchException", Misuse, source),
		awsError(400, "com.amazonaws.dynamodb.v20120810", "TransactionCanceledException", Final, source+": the entire transaction request was canceled, and a repeat after a success succeeds without changes; our reading: no earlier attempt has succeeded then"),
		awsError(400, "com.amazonaws.dynamodb.v20120810", "ProvisionedThroughputExceededException", Retry, source+": some of its parts may have been counted"),
		awsError(400, "com.amazonaws.dynamodb.v20120810", "RequestLimitExceeded", Retry, source),
		[]Rule{{Status: 400, Field: "__type", Equals: "com.amazonaws.dynamodb.v20120810#ThrottlingException", Verdict: NotExecuted, Source: sourceAWSThrottle}},
	)
	return a
}

// AWSStartBuild is CodeBuild's StartBuild: idempotencyToken, valid for 5 minutes.
// What a failure leaves behind, how a second request is answered while the first
// is worked on and what the error for other parameters is called is not published,
// so that nothing is sent again once it may have run.
func AWSStartBuild(region string) AWSAction {
	return AWSAction{
		Host:      "codebuild." + region + ".amazonaws.com",
		Target:    "CodeBuild_20161006.StartBuild",
		Token:     "idempotencyToken",
		Retention: 5 * time.Minute,
		Remembers: Successes,
		Source:    "aws-sdk-go-v2 service/codebuild v1.69.0 api_op_StartBuild.go [D]; failures, in flight: [?]",
	}
}

// AWSCreatePolicyStore is Verified Permissions' CreatePolicyStore: clientToken,
// recognized for 8 hours. Other parameters under a known token are a
// ConflictException, as is a modification at the same time, so that it is
// Indeterminate. How a second request is answered while the first is worked on is
// not published, so that nothing is sent again once it may have run.
func AWSCreatePolicyStore(region string) AWSAction {
	const source = "aws-sdk-go-v2 service/verifiedpermissions v1.34.1 api_op_CreatePolicyStore.go [D]"
	return AWSAction{
		Host:      "verifiedpermissions." + region + ".amazonaws.com",
		Target:    "VerifiedPermissions.CreatePolicyStore",
		Token:     "clientToken",
		Retention: 8 * time.Hour,
		Remembers: SuccessesCleanFailures,
		Rules:     awsError(400, "com.amazonaws.verifiedpermissions", "ConflictException", Indeterminate, source+": another request under the token, or at the same time"),
		Source:    source + "; in flight: [?]",
	}
}

const sourceAWS = "docs.aws.amazon.com/AWSEC2/latest/APIReference/Run_Instance_Idempotency.html and the SDKs' references [D]: tokens are a matter of each action"

// awsError reads an error of the JSON protocols, whose type may carry the service's
// namespace (github.com/aws/aws-sdk-go-v2 aws/protocol/restjson, SanitizeErrorCode).
func awsError(status int, namespace, name string, verdict Verdict, source string) []Rule {
	return []Rule{
		{Status: status, Field: "__type", Equals: namespace + "#" + name, Verdict: verdict, Source: source},
		{Status: status, Field: "__type", Equals: name, Verdict: verdict, Source: source},
	}
}

// awsConflict is for an action with a token: some services say by 409 that it is in
// use, or was used with other parameters.
var awsConflict = conflicts("__type", sourceAWS+"; IoT Wireless: 409")

var awsRules = slices.Concat(
	awsCredentials,
	refused,
	passing,
	awsError(400, "com.amazon.coral.availability", "ThrottlingException", NotExecuted, sourceAWSThrottle),
	[]Rule{
		{Status: 400, Through: 499, On: FirstAttempt, Verdict: Final, Source: sourceAWSErrors},
	},
)

// awsCredentials are the errors that the JSON protocols have in common for requests
// that are not authenticated.
var awsCredentials = func() (rules []Rule) {
	for _, name := range []string{"ExpiredTokenException", "IncompleteSignatureException", "InvalidSignatureException", "MissingAuthenticationTokenException", "UnrecognizedClientException"} {
		for _, rule := range awsError(400, "com.amazon.coral.service", name, Rejected, sourceAWSAccess) {
			rule.Through, rule.Credential = 403, true
			rules = append(rules, rule)
		}
	}
	return append(rules, awsError(400, "com.amazon.coral.service", "AccessDeniedException", Rejected, sourceAWSAccess)...)
}()

const (
	sourceAWSAccess   = "docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors [D] and CommonErrors [D]: not authenticated, or not allowed; the statuses and the namespace differ [C]"
	sourceAWSThrottle = "aws-sdk-go-v2 service/dynamodb v1.73.0 types/errors.go [D]: denied by throttling; the SDKs repeat it"
	sourceEC2Look     = "aws-sdk-go-v2 service/ec2 v1.344.2 api_op_DescribeInstances.go, serializers.go, deserializers.go and types/types.go [D]: the filter client-token; a reservation is a launch request; eventually consistent, and terminated instances are shown for less than an hour, usually"
	sourceAWSErrors   = "docs.aws.amazon.com/AWSEC2/latest/APIReference/Run_Instance_Idempotency.html [D-old]: a 400 will not succeed by being repeated"
)
