package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onceward/onceward"
)

// An order and a phone number have one spelling: a model that writes one otherwise in its retry would make a second effect.
// A server of your own looks the order up, and takes the amount from there.
var (
	orderForm  = regexp.MustCompile(`^order-[1-9][0-9]{0,17}$`)
	numberForm = regexp.MustCompile(`^\+[1-9][0-9]{1,14}$`) // E.164

	errOrder  = errors.New("NOT DONE. Nothing was sent. Write the order as order-7.")
	errNumber = errors.New("NOT DONE. Nothing was sent. Write the phone numbers as +15550001.")
)

// chargeArguments are the charge tool's arguments.
type chargeArguments struct {
	Order    string `json:"order" jsonschema:"the order to be paid, such as order-7; an order is charged once"`
	Amount   int64  `json:"amount" jsonschema:"in the smallest unit of the currency"`
	Currency string `json:"currency" jsonschema:"three letters, such as eur"`
}

// textArguments are the send_text tool's arguments.
type textArguments struct {
	To       string `json:"to" jsonschema:"a phone number, such as +15550001"`
	From     string `json:"from" jsonschema:"the sender's phone number"`
	Body     string `json:"body" jsonschema:"the text"`
	Occasion string `json:"occasion,omitempty" jsonschema:"leave it out; only if the user wants the same text to be sent once more, say why, such as: second reminder"`
}

type tools struct {
	client *onceward.Client
	services
}

func newServer(client *onceward.Client, s services) *mcp.Server {
	t := tools{client, s}
	server := mcp.NewServer(&mcp.Implementation{Name: "payments", Version: "1"}, nil)
	once := &mcp.ToolAnnotations{IdempotentHint: true}
	mcp.AddTool(server, &mcp.Tool{Name: "charge", Annotations: once, Description: "Charges the customer of an order. " + retries}, t.charge)
	mcp.AddTool(server, &mcp.Tool{Name: "send_text", Annotations: once, Description: "Sends a text message. " + retries}, t.sendText)
	mcp.AddTool(server, &mcp.Tool{
		Name: "check", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
		Description: "Says what became of an earlier call, by the operation that its result names. It changes nothing.",
	}, t.check)
	return server
}

const retries = "If no result came, call again with exactly the same arguments: it takes effect once. Do what the result's first line says."

func (t tools) charge(ctx context.Context, call *mcp.CallToolRequest, in chargeArguments) (*mcp.CallToolResult, any, error) {
	if !orderForm.MatchString(in.Order) {
		return nil, nil, errOrder
	}
	return t.post(ctx, call, in.Order, "The order was charged.", t.stripeURL+"/v1/charges", url.Values{
		"amount": {strconv.FormatInt(in.Amount, 10)}, "currency": {in.Currency}, "metadata[order]": {in.Order}, "source": {"tok_visa"},
	})
}

func (t tools) sendText(ctx context.Context, call *mcp.CallToolRequest, in textArguments) (*mcp.CallToolResult, any, error) {
	if !numberForm.MatchString(in.To) || !numberForm.MatchString(in.From) {
		return nil, nil, errNumber
	}
	return t.post(ctx, call, in, "The text was sent.", t.twilioURL+"/2010-04-01/Accounts/"+url.PathEscape(t.account)+"/Messages.json", url.Values{
		"To": {in.To}, "From": {in.From}, "Body": {in.Body},
	})
}

// operationOf names a call's operation by the tool and its purpose. Neither the session, nor the number of the request,
// nor a name that the client gives the call is part of it. A client that lost its connection has new ones, and so has a
// model that calls again.
func operationOf(tool string, purpose any) (string, error) {
	text, err := json.Marshal(purpose)
	sum := sha256.Sum256(text)
	return tool + "/" + hex.EncodeToString(sum[:16]), err
}

// user is whose call it is: different users' operations never meet.
func user(call *mcp.CallToolRequest) string {
	if call.Extra != nil && call.Extra.TokenInfo != nil {
		return call.Extra.TokenInfo.UserID
	}
	return ""
}

// post makes the request as the call's operation, and reports the outcome in words. purpose has the arguments that say what the
// call is for. A model that changes another argument in its retry makes no second effect.
func (t tools) post(ctx context.Context, call *mcp.CallToolRequest, purpose any, done, to string, form url.Values) (*mcp.CallToolResult, any, error) {
	name, err := operationOf(call.Params.Name, purpose)
	if err != nil {
		return nil, nil, err
	}
	ctx = onceward.WithOperation(onceward.WithScope(ctx, user(call)), name)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := t.client.HTTPClient().Do(req)
	if err != nil {
		return failed(name, err), nil, nil
	}
	defer resp.Body.Close()
	var object struct {
		ID, SID, Message string
		Error            struct{ Message string }
	}
	if err := json.NewDecoder(resp.Body).Decode(&object); err != nil && resp.StatusCode < http.StatusBadRequest {
		return say(false, name, "DONE. "+done+" Its answer can't be read. Do not call again."), nil, nil
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return say(true, name, fmt.Sprintf("REFUSED. The provider refused it (%d): %s Nothing took effect. Tell the user; do not try another way on your own.",
			resp.StatusCode, object.Error.Message+object.Message)), nil, nil
	}
	if op, _ := onceward.OperationOf(resp); op.Replayed {
		return say(false, name, "DONE BEFORE. "+done+" This is the recorded result of the earlier call ("+object.ID+object.SID+"). Nothing was done again. Do not call again."), nil, nil
	}
	return say(false, name, "DONE. "+done+" ("+object.ID+object.SID+") Do not call again."), nil, nil
}

// failed is the result for a call whose operation has no answer. Its first words say what a model has to do.
func failed(name string, err error) *mcp.CallToolResult {
	switch {
	case errors.Is(err, onceward.ErrOutcomeUnknown):
		return say(true, name, "UNKNOWN. It may have taken effect. Do not call again, with these arguments or others, and do not do it another way. "+
			"Tell the user that a person has to look, and use check later.")
	case errors.Is(err, onceward.ErrPending), errors.Is(err, onceward.ErrInFlight):
		return say(true, name, "PENDING. It may take effect yet, and is tried again on its own. Do not do it another way. Use check in a minute.")
	case errors.Is(err, onceward.ErrAnswerGone):
		return say(false, name, "DONE BEFORE. It took effect, and its answer is not kept. Do not call again.")
	case errors.Is(err, onceward.ErrKeyReused):
		return say(true, name, "REFUSED. This call was made before with other arguments, and nothing was sent now. Use the earlier arguments, or ask the user.")
	case errors.Is(err, onceward.ErrNotSent):
		return say(true, name, "NOT DONE. Nothing took effect. You may call again with the same arguments.")
	}
	return say(true, name, "NOT DONE BY THIS CALL. It could not be recorded, so nothing was sent now. An earlier call may have taken effect: use check.")
}

// checkArguments are the check tool's arguments.
type checkArguments struct {
	Operation string `json:"operation" jsonschema:"as a result named it"`
}

func (t tools) check(ctx context.Context, call *mcp.CallToolRequest, in checkArguments) (*mcp.CallToolResult, any, error) {
	op, err := t.client.Operation(ctx, onceward.Ref{Scope: user(call), ID: in.Operation})
	switch {
	case errors.Is(err, onceward.ErrNotFound):
		return say(false, in.Operation, "NEVER RECORDED. Nothing was sent for such a call."), nil, nil
	case err != nil:
		return say(true, in.Operation, "NOT READ. The journal could not be read. Nothing is known from this answer."), nil, nil
	}
	switch op.Effect {
	case onceward.EffectExecuted:
		return say(false, in.Operation, "DONE. It took effect. Do not call again."), nil, nil
	case onceward.EffectRefused:
		return say(false, in.Operation, "REFUSED. The provider refused it, and nothing took effect."), nil, nil
	case onceward.EffectNotExecuted:
		return say(false, in.Operation, "NOT DONE. Nothing took effect."), nil, nil
	case onceward.EffectUnknown, onceward.EffectNotKept:
		return say(false, in.Operation, "UNKNOWN. It may have taken effect. Do not call again; a person has to look."), nil, nil
	}
	return say(false, in.Operation, "PENDING. It may take effect yet. Do not do it another way."), nil, nil
}

func say(isError bool, operation, text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{IsError: isError, Content: []mcp.Content{&mcp.TextContent{Text: text + "\nOperation: " + operation}}}
}
