package providers_test

import (
	"flag"
	"fmt"
	"go/ast"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

var update = flag.Bool("update", false, "rewrite the tables in README.md and docs/ that are made from the adapters")

// The adapters in the documents are the tables.
func TestDocumentedAdapters(t *testing.T) {
	for _, table := range []struct {
		file, name string
		made       string
	}{
		{"../README.md", "adapters", list(t)},
		{"../docs/adapters.md", "providers", overview(t)},
		{"../docs/providers.md", "matrix", matrix()},
	} {
		t.Run(table.name, func(t *testing.T) { documented(t, table.file, table.name, table.made) })
	}
}

// documented holds a table of a document to what it is made from, or writes it anew.
func documented(t *testing.T, file, name, made string) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), "<!-- table: "+name+" -->\n")
	require.True(t, found, "%s has no place for the table", file)
	stands, after, found := strings.Cut(rest, "<!-- end -->")
	require.True(t, found)
	if *update {
		whole := before + "<!-- table: " + name + " -->\n" + made + "<!-- end -->" + after
		require.NoError(t, os.WriteFile(file, []byte(whole), 0o644))
		return
	}
	assert.True(t, made == stands, "%s is not what the adapters say; it is made anew by: go test -run Documented . ./providers -update", file)
}

// list links every adapter to its contract.
func list(t *testing.T) string {
	t.Helper()
	calls := calls(t)
	var links []string
	for _, p := range adapters() {
		name, _, _ := strings.Cut(calls[p.Name], "(")
		links = append(links, fmt.Sprintf("[%s](docs/providers.md#%s)", name, strings.ReplaceAll(p.Name, ".", "")))
	}
	var b strings.Builder
	for line := range slices.Chunk(links, 4) {
		b.WriteString(strings.Join(line, " · ") + " ·\n")
	}
	return strings.TrimSuffix(b.String(), " ·\n") + "\n"
}

// overview is a line for every adapter, with what its endpoints have in common.
func overview(t *testing.T) string {
	t.Helper()
	calls := calls(t)
	var b strings.Builder
	b.WriteString("| adapter | key | kept for | sent again after an ambiguous failure |\n|---|---|---|---|\n")
	for _, p := range adapters() {
		var keys, kept []string
		var shortest, longest time.Duration
		again, keyed, lost := 0, 0, 0
		for _, e := range p.Endpoints {
			if e.Key.Place == providers.KeyNone {
				continue
			}
			keys = appendNew(keys, fmt.Sprintf("%s `%s`", e.Key.Place, e.Key.Name))
			keyed++
			if termsOf(e).Window() > 0 {
				again++
				if e.Remembers == providers.SuccessesLostAnswers {
					lost++
				}
			}
			switch {
			case callersRetention(p, e):
				kept = appendNew(kept, "as you say")
			case e.Retention == 0:
				kept = appendNew(kept, "not published")
			default:
				longest = max(longest, e.Retention)
				if shortest == 0 || e.Retention < shortest {
					shortest = e.Retention
				}
			}
		}
		switch {
		case shortest == longest && longest > 0:
			kept = slices.Insert(kept, 0, period(longest))
		case longest > 0:
			kept = slices.Insert(kept, 0, period(shortest)+" to "+period(longest))
		}
		resent := "no"
		switch {
		case again > 0 && again < keyed:
			resent = "some requests with a key"
		case again > 0:
			resent = "every request with a key"
		}
		if lost > 0 {
			resent += ", after a lost answer"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", calls[p.Name], strings.Join(keys, "; "), strings.Join(kept, "; "), resent)
	}
	return b.String()
}

// calls are the adapters' functions with the names of their parameters, by the
// name of the provider.
func calls(t *testing.T) map[string]string {
	t.Helper()
	byFunction := map[string]string{}
	for _, fn := range adapterFunctions(t) {
		var parameters []string
		for _, field := range fn.Type.Params.List {
			for _, name := range field.Names {
				parameters = append(parameters, name.Name)
				if _, ok := field.Type.(*ast.Ellipsis); ok {
					parameters[len(parameters)-1] += "..."
				}
			}
		}
		byFunction[strings.ToLower(fn.Name.Name)] = fn.Name.Name + "(" + strings.Join(parameters, ", ") + ")"
	}
	byName := map[string]string{}
	for _, p := range adapters() {
		call := byFunction[strings.TrimSuffix(p.Name, ".com")]
		require.NotEmpty(t, call, "no function is named like %s", p.Name)
		byName[p.Name] = call
	}
	return byName
}

// callersRetention tells whether a retention is what the adapter was given.
func callersRetention(p providers.Provider, e providers.Endpoint) bool {
	return strings.Contains(e.Source, "the caller") || p.Name == "ietf" || p.Name == "raw"
}

// matrix is a section for every adapter: what holds for its requests, and what
// its answers mean.
func matrix() string {
	var b strings.Builder
	for _, p := range adapters() {
		fmt.Fprintf(&b, "\n## %s\n\nHosts: %s\n", p.Name, code(p.Hosts))
		if len(p.AccountHeaders) > 0 {
			fmt.Fprintf(&b, "<br>Account headers: %s\n", code(p.AccountHeaders))
		}
		if p.CredentialScoped {
			b.WriteString("<br>Keys are known under the credential they were sent with: when it changes, nothing is sent again.\n")
		}
		if len(p.CredentialModes) > 0 {
			var modes []string
			for _, m := range p.CredentialModes {
				modes = append(modes, fmt.Sprintf("`%s` is %s", m.Prefix, m.Mode))
			}
			fmt.Fprintf(&b, "<br>What a credential is for, by its prefix: %s\n", strings.Join(modes, ", "))
		}
		if len(p.Answers) > 0 {
			fmt.Fprintf(&b, "<br>Answers in: %s\n", code(p.Answers))
		}
		for _, d := range p.Declines {
			fmt.Fprintf(&b, "<br>A success without effect: `%s` is `%s`. Source: %s\n", d.Field, d.Equals, cell(d.Source))
		}
		if p.ReplayHeader != "" {
			fmt.Fprintf(&b, "<br>A replay is marked by: `%s: %s`\n", p.ReplayHeader, p.ReplayValue)
		}
		if p.SecretSource != "" {
			fmt.Fprintf(&b, "<br>Secrets of requests: %s\n", cell(p.SecretSource))
		}
		fmt.Fprintf(&b, "<br>Source: %s\n", cell(p.Source))
		requestsOf(&b, p)
		answersOf(&b, p)
		foundOf(&b, p)
	}
	return b.String()
}

// grouped collects texts under what they have in common, in the order in which
// that comes first.
type grouped struct {
	facts []string
	texts map[string][]string
}

func (g *grouped) add(fact, text string) {
	if g.texts == nil {
		g.texts = map[string][]string{}
	}
	if g.texts[fact] == nil {
		g.facts = append(g.facts, fact)
	}
	g.texts[fact] = append(g.texts[fact], text)
}

func requestsOf(b *strings.Builder, p providers.Provider) {
	var groups grouped
	for _, e := range p.Endpoints {
		groups.add(fmt.Sprintf("%s | %s | %s | %s", keyCell(e), memoryCell(p, e), afterwards(e), cell(e.Source)), "`"+identity(e)+"`")
	}
	b.WriteString("\n| requests | key | remembered | after an ambiguous failure | source |\n|---|---|---|---|---|\n")
	for _, fact := range groups.facts {
		fmt.Fprintf(b, "| %s | %s |\n", strings.Join(groups.texts[fact], "<br>"), fact)
	}
}

func keyCell(e providers.Endpoint) string {
	k := e.Key
	if k.Place == providers.KeyNone {
		return "none"
	}
	text := fmt.Sprintf("%s `%s`", k.Place, k.Name)
	if k.OnlyIfThere {
		text += ", where the request has one"
	}
	if k.FirstSent != "" {
		text += fmt.Sprintf(", with `%s`", k.FirstSent)
	}
	switch {
	case k.UUIDVersion > 0:
		text += fmt.Sprintf(", a UUID of version %d", k.UUIDVersion)
	case k.MinLength > 0 && k.MinLength == k.MaxLength:
		text += fmt.Sprintf(", %d characters", k.MinLength)
	case k.MinLength > 0 && k.MaxLength > 0:
		text += fmt.Sprintf(", %d to %d characters", k.MinLength, k.MaxLength)
	case k.MinLength > 0:
		text += fmt.Sprintf(", at least %d characters", k.MinLength)
	case k.MaxLength > 0:
		text += fmt.Sprintf(", up to %d characters", k.MaxLength)
	}
	return text
}

func memoryCell(p providers.Provider, e providers.Endpoint) string {
	switch {
	case e.NoEffect || e.Key.Place == providers.KeyNone:
		return "–"
	case e.Remembers == providers.Nothing:
		return "nothing is known"
	}
	text := e.Remembers.String() + ", "
	switch {
	case callersRetention(p, e):
		text += "for as long as you say"
	case e.Retention == 0:
		text += "for a time that is not published"
	default:
		text += "for " + period(e.Retention)
	}
	if e.RefusalsRegisterNoKey {
		text += ", from the first request that was not refused"
	}
	return text
}

// unbounded says what is missing for a repeat.
func unbounded(t journal.Terms) string {
	if t.Retention == 0 {
		return "and no retention is known"
	}
	return "and it is not published what becomes of two at once"
}

// afterwards says what becomes of a request of which nobody knows whether it ran.
func afterwards(e providers.Endpoint) string {
	t := termsOf(e)
	text := "unknown"
	switch {
	case e.NoEffect:
		return "not journaled"
	case t.Window() > 0 && t.Remembers == providers.SuccessesLostAnswers:
		text = "sent again with the same key after a lost answer; unknown after a failure that was received"
	case t.Window() > 0 && t.Guard:
		text = "sent again with the same key"
	case t.Window() > 0:
		text = fmt.Sprintf("sent again with the same key, %s after the attempt at the earliest", t.Handling)
	case t.Remembers == providers.Nothing && e.Idempotent:
		text = "sent again: idempotent by the provider's word"
	case t.Remembers == providers.Nothing:
	case e.Remembers == providers.SuccessesLostAnswers && t.Window() == 0:
		text = "unknown: after a lost answer alone a repeat is safe, " + unbounded(t)
	case t.Remembers == providers.Successes:
		text = "unknown: a failure may have had an effect"
	case t.Retention == 0:
		text = "unknown: no retention is known"
	case !t.Guard:
		text = "unknown: it is not published what becomes of two at once"
	}
	if e.FetchPointer {
		text += "; what was created before is fetched"
	}
	if len(e.SecretRequest) > 0 {
		text += "; a body with " + strings.ReplaceAll(code(e.SecretRequest), ", ", " or ") + " is a secret and not kept"
	}
	if e.SecretResponse {
		text += "; the answer is a secret and not kept"
	}
	return text
}

func answersOf(b *strings.Builder, p providers.Provider) {
	var groups grouped
	for _, e := range p.Endpoints {
		if e.NoEffect {
			continue
		}
		var rules strings.Builder
		for i := 0; i < len(e.Rules); {
			first, more := e.Rules[i], 1
			for more < len(e.Rules)-i && alike(first, e.Rules[i+more]) {
				more++
			}
			verdict := first.Verdict.String()
			if first.Credential {
				verdict += ", the credential"
			}
			fmt.Fprintf(&rules, "| %s | %s | %s |\n", conditions(e.Rules[i:i+more]), verdict, cell(first.Source))
			i += more
		}
		groups.add(rules.String(), "`"+identity(e)+"`")
	}
	for _, rules := range groups.facts {
		if rules == "" {
			continue
		}
		if len(groups.facts) > 1 {
			fmt.Fprintf(b, "\nAnswers to %s:\n", strings.Join(groups.texts[rules], ", "))
		}
		fmt.Fprintf(b, "\n| answer | verdict | source |\n|---|---|---|\n%s", rules)
	}
}

// alike tells whether rules that follow each other differ in their status or in
// their text only, so that they are one line.
func alike(a, b providers.Rule) bool {
	if a.Field == "" || a.Status != b.Status || a.Through != b.Through {
		b.Status, b.Through = a.Status, a.Through
	} else {
		b.Equals = a.Equals
	}
	return a == b
}

func conditions(rules []providers.Rule) string {
	var statuses, texts, parts []string
	for _, r := range rules {
		switch {
		case r.Status == 0:
			statuses = appendNew(statuses, "any status")
		case r.Through == 0:
			statuses = appendNew(statuses, fmt.Sprint(r.Status))
		default:
			statuses = appendNew(statuses, fmt.Sprintf("%d–%d", r.Status, r.Through))
		}
		if r.Equals != "" {
			texts = appendNew(texts, r.Equals)
		}
	}
	parts = append(parts, strings.Join(statuses, ", "))
	r := rules[0]
	if r.Header != "" {
		parts = append(parts, fmt.Sprintf("`%s`", strings.TrimSuffix(r.Header+": "+r.Value, ": ")))
	}
	switch {
	case r.Field != "" && len(texts) > 0:
		parts = append(parts, fmt.Sprintf("`%s` is %s", r.Field, strings.ReplaceAll(code(texts), ", ", " or ")))
	case r.Field != "":
		parts = append(parts, fmt.Sprintf("`%s` is there", r.Field))
	}
	if r.Without != "" {
		parts = append(parts, fmt.Sprintf("`%s` is not there", r.Without))
	}
	if r.On != providers.AnyAttempt {
		parts = append(parts, r.On.String())
	}
	return strings.Join(parts, "; ")
}

func code(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = "`" + text + "`"
	}
	return strings.Join(quoted, ", ")
}

// cell is a text as it stands in a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

func appendNew(list []string, text string) []string {
	if slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}

func period(d time.Duration) string {
	switch {
	case d%day == 0 && d > day:
		return fmt.Sprintf("%d days", d/day)
	case d%time.Hour == 0:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%d minutes", d/time.Minute)
	}
	return d.String()
}
