package providers_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/providers"
)

// contracts returns every adapter of this package, with valid arguments, and its contract. The conformance suite, the
// benchmark, the fuzz targets and the pages in docs/providers go through it. No two adapters name the same host.
func contracts() []contract {
	return []contract{
		stripeContract(),
		adyenContract(),
		ietfContract(),
		rawContract(),
		oncewardContract(),
		paypalContract(),
		squareContract(),
		twilioContract(),
		gocardlessContract(),
		checkoutContract(),
		mollieContract(),
		klarnaContract(),
		wiseContract(),
		razorpayContract(),
		modernTreasuryContract(),
		dwollaContract(),
		braintreeContract(),
		shopifyContract(),
		repeatableContract(),
		aip155Contract(),
		awsContract(),
		increaseContract(),
		columnContract(),
		svixContract(),
		resendContract(),
		workOSContract(),
		coinbaseContract(),
		fireblocksContract(),
		zuoraContract(),
		bridgeContract(),
		mangopayContract(),
		trueLayerContract(),
		worldlineContract(),
		moovContract(),
		mercadoPagoContract(),
		plaidContract(),
		acpContract(),
		ucpContract(),
		airwallexContract(),
		circleContract(),
		lithicContract(),
		marqetaContract(),
		chargebeeContract(),
		flutterwaveContract(),
		rapydContract(),
		paystackContract(),
		telnyxContract(),
		finixContract(),
		amazonPayContract(),
	}
}

// adapters are the tables alone.
func adapters() (all []providers.Provider) {
	for _, c := range contracts() {
		all = append(all, c.adapter)
	}
	return all
}

func TestEveryAdapterIsHeldToAContract(t *testing.T) {
	listed, err := os.ReadFile("all_test.go")
	require.NoError(t, err)
	for _, fn := range adapterFunctions(t) {
		found := strings.Contains(strings.ToLower(string(listed)), strings.ToLower("\t"+fn.Name.Name+"Contract()"))
		assert.True(t, found, "%s is not in the list", fn.Name.Name)
	}
}

// The README and the changelog name the number of tables.
func TestDocumentsCountTheTables(t *testing.T) {
	tables := len(adapterFunctions(t))
	assert.Len(t, contracts(), tables)
	for file, sentence := range map[string]string{"../README.md": "There are %d tables.", "../CHANGELOG.md": "**%d tables** of providers' contracts"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Contains(t, string(text), fmt.Sprintf(sentence, tables), file)
	}
}

// adapterFunctions are this package's exported functions that return a Provider.
func adapterFunctions(t *testing.T) (found []*ast.FuncDecl) {
	t.Helper()
	files, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".go") || strings.HasSuffix(file.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file.Name(), nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, decl := range parsed.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || !fn.Name.IsExported() || fn.Type.Results == nil || len(fn.Type.Results.List) != 1 {
				continue
			}
			if result, ok := fn.Type.Results.List[0].Type.(*ast.Ident); ok && result.Name == "Provider" {
				found = append(found, fn)
			}
		}
	}
	return found
}

func TestAllAdaptersCanBeUsedAtOnce(t *testing.T) {
	t.Parallel()
	all := adapters()
	newRouter(t, all...)
	slices.Reverse(all)
	newRouter(t, all...)
}

// requestFor is a request that matches an endpoint's pattern.
func requestFor(p providers.Provider, pattern string) *http.Request {
	method, path, ok := strings.Cut(pattern, " ")
	if !ok {
		method, path = http.MethodPut, pattern
	}
	var segments []string
	for segment := range strings.SplitSeq(path, "/") {
		if strings.HasPrefix(segment, "{") {
			segment = "42"
		}
		segments = append(segments, segment)
	}
	path = strings.Join(segments, "/")
	if strings.HasSuffix(path, "/") {
		path += "something/else"
	}
	host := "any.example.com"
	if len(p.Hosts) > 0 {
		host = strings.Replace(p.Hosts[0], "*", "any", 1)
	}
	return &http.Request{Method: method, URL: &url.URL{Scheme: "https", Host: host, Path: path}}
}
