package providers

import (
	"cmp"
	"reflect"
	"slices"
	"time"
)

// AWSAction is an AWS action's contract: a row in the table from which [AWS] makes a [Provider]. AWS has one contract
// per action, so list the actions that you call.
//
// An action in the Query protocol (EC2) has a Name, in the JSON protocols (DynamoDB) a Target, and in a REST service
// a Pattern.
type AWSAction struct {
	// Host is the service's endpoint in one region: "ec2.eu-central-1.amazonaws.com". A token is valid in its
	// own region.
	Host string

	// Name is the value of the parameter Action.
	Name string

	// Target is the value of the header X-Amz-Target.
	Target string

	// Pattern is the pattern of [Endpoint]. Requests of the Query protocol must be POSTs, as the SDKs send
	// them, because a GET counts as safe on every host. Default: "POST /".
	Pattern string

	// NoEffect marks an action that only reads.
	NoEffect bool

	// Token is the parameter with the client token: a form field of the Query protocol, otherwise a dotted
	// path into the JSON body. Empty means that the action has none.
	Token string

	// MinLength and MaxLength bound the token's length. Zero means no bound.
	MinLength, MaxLength int

	// Retention, Remembers, InFlightGuard and HandlingTime are those of [Endpoint]. Few services publish them all. An
	// action without a fact that the resend rule needs is not sent again once it may have run.
	Retention     time.Duration
	Remembers     Memory
	InFlightGuard bool
	HandlingTime  time.Duration

	// SecretResponse marks answers that contain a secret.
	SecretResponse bool

	// Rules come before the rules of all actions.
	Rules []Rule

	// Source is the source of the facts.
	Source string
}

// AWS describes the listed AWS actions, on their hosts. [AWSRunInstances], [AWSTransactWriteItems],
// [AWSStartBuild] and [AWSCreatePolicyStore] are documented rows. Without any action, [Provider.Validate]
// returns an error.
//
// A listed action is recognised by its name on every listed host. If two services have different actions with one name,
// call AWS for each and give one table another Name. Every unlisted action on these hosts counts as having an effect
// and no token. List actions that only read with NoEffect, or send such actions through another http.Client.
//
// AWS signs requests over their bodies (SigV4), the token included, and the SDKs make a new token per call if none is
// set. An operation that gets its first token back must be signed again. Sign in Authorize, which sees the final
// request on every attempt. Switch the SDKs' own retries off.
//
// Errors of the JSON protocols are read by their type (__type), with or without a namespace. Errors of the
// Query protocol are XML and are read by their status, unless the action's Rules know their code:
//
//   - A 4xx is the operation's answer on a first attempt and proves nothing on a later one. Services use 400 for a mismatch, a
//     throttle, or a conflict with the same request.
//   - A throttle that names itself was not executed.
//   - An error about the access key, its token or the signature refuses the credential, with 400 or 403.
//   - For an action with a token, 409 is Indeterminate unless the action's Rules know better, or the key was made for
//     this first attempt.
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
	if len(actions) > 0 {
		for _, pattern := range []string{awsRoot, "/"} {
			p.Endpoints = append(p.Endpoints, Endpoint{Pattern: pattern, Rules: awsRules, Source: sourceAWS + ": not listed"})
		}
	}
	return p.Clone()
}

// awsRoot has the actions of the Query and JSON protocols, which use one path, and all unlisted ones.
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
		Source:         a.Source,
	}
	e.Pattern = cmp.Or(e.Pattern, awsRoot)
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

// AWSRunInstances is EC2's RunInstances. ClientToken has at most 64 ASCII characters and is valid for at least 24 hours
// after the instance was terminated, so Retention is 24 hours. The operation completes no more than once. AWS does not
// publish the answer to a second request during the first, so nothing is sent again once it may have run. An
// InsufficientInstanceCapacity launched nothing, and the request is sent again. The table has no look-up: EC2 usually
// shows a terminated instance for less than an hour.
func AWSRunInstances(region string) AWSAction {
	return AWSAction{
		Host:      "ec2." + region + ".amazonaws.com",
		Name:      "RunInstances",
		Token:     "ClientToken",
		MaxLength: 64,
		Retention: 24 * time.Hour,
		Remembers: SuccessesCleanFailures,
		Rules: []Rule{
			{Status: 500, Field: "Errors.Error.Code", Equals: "InsufficientInstanceCapacity", Verdict: NotExecuted, Source: sourceEC2Capacity},
		},
		Source: "docs.aws.amazon.com/AWSEC2/latest/APIReference/Run_Instance_Idempotency.html [D-old]: completes no more than one time; in flight: [?]",
	}
}

// AWSTransactWriteItems is DynamoDB's TransactWriteItems. ClientRequestToken has 1 to 36 characters and is valid for 10
// minutes after the first request completed. Identical calls have the effect of one, and a transaction succeeds or
// fails as a whole. A cancelled one (TransactionCanceledException) is the operation's answer on a later attempt too.
// After a success the same token would return the success, and a transaction in flight has a separate error.
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

// AWSStartBuild is CodeBuild's StartBuild. idempotencyToken is valid for 5 minutes. AWS does not publish the
// effects of a failure, the answer to a second request during the first, or the error for other parameters.
// Nothing is sent again once it may have run.
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

// AWSCreatePolicyStore is Verified Permissions' CreatePolicyStore. clientToken is recognized for 8 hours.
// Other parameters under a known token are a ConflictException, as is a concurrent modification, so that
// error is Indeterminate. AWS does not publish the answer to a second request during the first, so nothing is
// sent again once it may have run.
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

// awsConflict is for an action with a token: some services say by 409 that the token is in use, or was used with other
// parameters.
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

// awsCredentials are the JSON protocols' common errors for requests that are not authenticated.
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
	sourceEC2Capacity = "aws-sdk-go-v2 service/ec2 v1.344.2 api_op_RunInstances.go [D]: with too little capacity for MinCount EC2 launches no instances; docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html [D]: a server error; status and body: github.com/galaxyproject/cloudman/issues/64 [C]"
	sourceAWSErrors   = "docs.aws.amazon.com/AWSEC2/latest/APIReference/Run_Instance_Idempotency.html [D-old]: a 400 will not succeed by being repeated"
)
