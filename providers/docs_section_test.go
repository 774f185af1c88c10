package providers_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/providers"
)

// section holds what the parts of a provider's page share.
type section struct {
	provider providers.Provider
	sources  *citations
	lines    [][]string // by endpoint: its rules as lines of a table
	rows     [][]int    // the rows of the table of requests, as endpoints
	rowOf    []int      // by endpoint
}

func newSection(p providers.Provider) *section {
	s := &section{provider: p, sources: newCitations(p)}
	var groups grouped
	for i, e := range p.Endpoints {
		s.lines = append(s.lines, s.linesOf(e))
		groups.add(fmt.Sprint(s.requestCells(e), e.Key, e.Remembers, retentionCell(p, e), guardCell(e), e.Idempotent, e.SecretRequest, s.lines[i]), fmt.Sprint(i))
	}
	s.rowOf = make([]int, len(p.Endpoints))
	for row, fact := range groups.facts {
		var endpoints []int
		for _, text := range groups.texts[fact] {
			i, _ := strconv.Atoi(text)
			endpoints = append(endpoints, i)
			s.rowOf[i] = row
		}
		s.rows = append(s.rows, endpoints)
	}
	return s
}

// providerFacts writes the facts that hold for all requests to the provider.
func providerFacts(b *strings.Builder, s *section) {
	p := s.provider
	fmt.Fprintf(b, "- Hosts: %s\n", code(p.Hosts))
	if len(p.AccountHeaders) > 0 {
		fmt.Fprintf(b, "- Account headers: %s\n", code(p.AccountHeaders))
	}
	var modes grouped
	for _, m := range p.CredentialModes {
		modes.add(m.Mode, m.Prefix)
	}
	for _, mode := range modes.facts {
		fmt.Fprintf(b, "- Prefixes of %s credentials: %s\n", mode, code(modes.texts[mode]))
	}
	switch {
	case len(p.Answers) == 0:
		b.WriteString("- Answers: any media type\n")
	case !slices.Equal(p.Answers, []string{"application/json"}):
		fmt.Fprintf(b, "- Answers: %s\n", code(p.Answers))
	}
	for _, d := range p.Declines {
		fmt.Fprintf(b, "- Success without effect: `%s` is `%s`. Source: %s\n", d.Field, d.Equals, s.sources.cite(d.Source))
	}
	if p.ReplayHeader != "" {
		fmt.Fprintf(b, "- Mark of a replay: `%s: %s`\n", p.ReplayHeader, p.ReplayValue)
	}
	var secrets grouped
	for i, e := range p.Endpoints {
		if len(e.SecretRequest) > 0 {
			secrets.add(code(e.SecretRequest), fmt.Sprint(i))
		}
	}
	source := ""
	if p.SecretSource != "" {
		source = ". Source: " + s.sources.cite(p.SecretSource)
	}
	for _, fields := range secrets.facts {
		fmt.Fprintf(b, "- Secret fields of %s: %s%s\n", lower(s.rowsOf(secrets.texts[fields])), fields, source)
		source = ""
	}
	if source != "" {
		fmt.Fprintf(b, "- Secret fields: none%s\n", source)
	}
	if i := p.Identity; i.Path != "" {
		field := "`" + i.Field + "`"
		if i.Last {
			field = "the last segment of " + field
		}
		fmt.Fprintf(b, "- Account of a credential: `%s`, %s%s. Source: %s\n", i.Path, field, needs(i.Needs), s.sources.cite(i.Source))
	}
	if p.CredentialScoped {
		b.WriteString("- Keys belong to: the credential. After the credential changes, Onceward sends nothing again\n")
	}
	if p.KeysPerScope {
		b.WriteString("- Keys belong to: the scope of the caller\n")
	}
	if p.KeysUnder != "" {
		fmt.Fprintf(b, "- Name in the journal: `%s`\n", p.KeysUnder)
	}
	if len(p.WebhookSchemes) > 0 {
		fmt.Fprintf(b, "- Signatures of webhooks: %s\n", code(p.WebhookSchemes))
	}
	fmt.Fprintf(b, "- Source: %s\n", s.sources.cite(p.Source))
}

// keysOf writes where keys go, how keys look, and what the provider remembers of a key: a line for the rows that have
// these facts in common.
func keysOf(b *strings.Builder, s *section) {
	var keys grouped
	for i, e := range s.provider.Endpoints {
		if e.Key.Place == providers.KeyNone || e.NoEffect {
			continue
		}
		place := fmt.Sprintf("%s `%s`", e.Key.Place, e.Key.Name)
		keys.add(strings.Join([]string{place, keyForm(e.Key), memoryCell(e), retentionCell(s.provider, e), guardCell(e)}, " | "), fmt.Sprint(i))
	}
	if len(keys.facts) == 0 {
		b.WriteString("The provider takes no key.\n")
		return
	}
	b.WriteString("| rows | place | form | results that answer a repeat | kept for | a second request while the first runs |\n|---|---|---|---|---|---|\n")
	for _, fact := range keys.facts {
		fmt.Fprintf(b, "| %s | %s |\n", s.letters(keys.texts[fact]), fact)
	}
}

// guardCell describes the fate of a second request while the first runs.
func guardCell(e providers.Endpoint) string {
	switch {
	case e.InFlightGuard:
		return "not executed"
	case e.HandlingTime > 0:
		return "not published; the provider handles a request for at most " + period(e.HandlingTime)
	}
	return "not published"
}

// subject names endpoints, given by their numbers.
func (s *section) subject(texts []string) string {
	var these, keyed, keyless []int
	for _, text := range texts {
		i, _ := strconv.Atoi(text)
		these = append(these, i)
	}
	for i, e := range s.provider.Endpoints {
		switch {
		case e.NoEffect:
		case e.Key.Place == providers.KeyNone:
			keyless = append(keyless, i)
		default:
			keyed = append(keyed, i)
		}
	}
	var endpoints []providers.Endpoint
	for _, i := range these {
		endpoints = append(endpoints, s.provider.Endpoints[i])
	}
	switch {
	case slices.Equal(these, append(slices.Clone(keyed), keyless...)), slices.Equal(these, append(slices.Clone(keyless), keyed...)):
		return "Every request"
	case slices.Equal(these, keyed):
		return "Every request with a key"
	case slices.Equal(these, keyless):
		return "Every request without a key"
	case len(these) <= 3:
		return namesOf(endpoints)
	}
	return s.rowsOf(texts) + ", such as " + namesOf(endpoints[:1])
}

// rowsOf names the rows of endpoints, which are given by their numbers.
func (s *section) rowsOf(texts []string) string {
	if len(s.rows) == 1 {
		return "Every request"
	}
	letters := s.letters(texts)
	if len(letters) == 1 {
		return "Row " + letters
	}
	return "Rows " + letters
}

// letters are the rows of endpoints, which are given by their numbers.
func (s *section) letters(texts []string) string {
	var rows []int
	for _, text := range texts {
		i, _ := strconv.Atoi(text)
		rows = append(rows, s.rowOf[i])
	}
	slices.Sort(rows)
	return strings.Join(runs(slices.Compact(rows), letter), ", ")
}

// requestCells are the cells of a request but for its name.
func (s *section) requestCells(e providers.Endpoint) []string {
	var notes []string
	switch {
	case e.NoEffect:
		notes = append(notes, "no effect")
	case e.Key.Place == providers.KeyNone:
		notes = append(notes, "no key")
	default:
		notes = append(notes, "key")
	}
	if e.FetchPointer {
		notes = append(notes, "an object that exists already is fetched")
	}
	if e.SecretResponse {
		notes = append(notes, "secret answer")
	}
	if len(e.OpenRequest) > 0 {
		notes = append(notes, "kept although named like a secret: "+code(e.OpenRequest))
	}
	if len(e.OmitFields) > 0 {
		notes = append(notes, "left out of the fingerprint: "+code(e.OmitFields))
	}
	return []string{strings.Join(notes, "; "), s.sources.cite(e.Source)}
}

func requestsOf(b *strings.Builder, s *section) {
	b.WriteString("\n| row | requests | key | source |\n|---|---|---|---|\n")
	for row, endpoints := range s.rows {
		var these []providers.Endpoint
		for _, i := range endpoints {
			these = append(these, s.provider.Endpoints[i])
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", letter(row), namesOf(these), strings.Join(s.requestCells(these[0]), " | "))
	}
}

// keyForm says which keys an endpoint takes.
func keyForm(k providers.Key) string {
	var parts []string
	if k.OnlyIfThere {
		parts = append(parts, "if the request has one")
	}
	if k.FirstSent != "" {
		parts = append(parts, "with `"+k.FirstSent+"`")
	}
	switch {
	case k.UUIDVersion > 0:
		parts = append(parts, fmt.Sprintf("a UUID of version %d", k.UUIDVersion))
	case k.MinLength > 0 && k.MinLength == k.MaxLength:
		parts = append(parts, fmt.Sprintf("%d characters", k.MinLength))
	case k.MinLength > 0 && k.MaxLength > 0:
		parts = append(parts, fmt.Sprintf("%d to %d characters", k.MinLength, k.MaxLength))
	case k.MinLength > 0:
		parts = append(parts, fmt.Sprintf("at least %d characters", k.MinLength))
	case k.MaxLength > 0:
		parts = append(parts, fmt.Sprintf("up to %d characters", k.MaxLength))
	}
	if k.Alphabet != "" {
		parts = append(parts, "of the characters `"+cell(k.Alphabet)+"`")
	}
	return strings.Join(parts, ", ")
}

func retentionCell(p providers.Provider, e providers.Endpoint) string {
	switch {
	case callersRetention(p, e):
		return "as you say"
	case e.Retention == 0:
		return "not published"
	}
	text := period(e.Retention)
	if e.Declared != (providers.Declared{}) {
		text += ", or less if `" + e.Declared.Header + e.Declared.Field + "` says so"
	}
	if e.RefusalsRegisterNoKey {
		text += ", from the first request that was not refused"
	}
	return text
}

func memoryCell(e providers.Endpoint) string {
	if e.Remembers == providers.Nothing {
		return "nothing is known"
	}
	return e.Remembers.String()
}

// linesOf returns an endpoint's rules as lines of a table.
func (s *section) linesOf(e providers.Endpoint) (lines []string) {
	for i := 0; i < len(e.Rules) && !e.NoEffect; {
		first, more := e.Rules[i], 1
		for more < len(e.Rules)-i && alike(first, e.Rules[i+more]) {
			more++
		}
		sources := s.sources.cite(first.Source)
		for isRFC(first) && i+more < len(e.Rules) && isRFC(e.Rules[i+more]) && e.Rules[i+more].Verdict == first.Verdict {
			sources = sources + " " + s.sources.cite(e.Rules[i+more].Source)
			more++
		}
		verdict := first.Verdict.String()
		if first.Credential {
			verdict += ", the credential"
		}
		if first.Pointer != "" {
			verdict += ", see `" + first.Pointer + "`"
		}
		lines = append(lines, fmt.Sprintf("%s | %s | %s", conditions(e.Rules[i:i+more]), verdict, sources))
		i += more
	}
	return lines
}

// isRFC reports whether a rule reads a status as its RFC does, regardless of the rest of the answer.
func isRFC(r providers.Rule) bool {
	return strings.HasPrefix(r.Source, "RFC ") && r == providers.Rule{Status: r.Status, Verdict: r.Verdict, Source: r.Source}
}

// answersOf writes the rules of all requests as one table. The lines of each request stand in their order.
func answersOf(t *testing.T, b *strings.Builder, s *section) {
	t.Helper()
	var merged []ruleLine
	judged := 0
	for row, endpoints := range s.rows {
		if lines := s.lines[endpoints[0]]; len(lines) > 0 {
			merged = merge(merged, lines, row)
			judged++
		}
	}
	if judged == 0 {
		return
	}
	for row, endpoints := range s.rows {
		var lines []string
		for _, line := range merged {
			if slices.Contains(line.rows, row) {
				lines = append(lines, line.text)
			}
		}
		assert.Equal(t, s.lines[endpoints[0]], lines, "%s, row %s: the order of its rules is lost", s.provider.Name, letter(row))
	}
	b.WriteString("\n## Answers\n\nThe first line that matches decides.\n")
	of := slices.ContainsFunc(merged, func(line ruleLine) bool { return len(line.rows) < judged })
	if of {
		b.WriteString("\n| rows | answer | verdict | source |\n|---|---|---|---|\n")
	} else {
		b.WriteString("\n| answer | verdict | source |\n|---|---|---|\n")
	}
	for _, line := range merged {
		switch {
		case !of:
			fmt.Fprintf(b, "| %s |\n", line.text)
		case len(line.rows) == judged:
			fmt.Fprintf(b, "| all | %s |\n", line.text)
		default:
			slices.Sort(line.rows)
			fmt.Fprintf(b, "| %s | %s |\n", strings.Join(runs(line.rows, letter), ", "), line.text)
		}
	}
}

// ruleLine is a line of the table of answers, and the rows of the table of requests that it is of.
type ruleLine struct {
	text string
	rows []int
}

// merge adds the lines of a row. It keeps the order of all lines, and repeats a line that stands in another order.
func merge(into []ruleLine, lines []string, row int) (merged []ruleLine) {
	// longest[i][j] is the length of the longest common subsequence of into[i:] and lines[j:].
	longest := make([][]int, len(into)+1)
	for i := range longest {
		longest[i] = make([]int, len(lines)+1)
	}
	for i := len(into) - 1; i >= 0; i-- {
		for j := len(lines) - 1; j >= 0; j-- {
			if into[i].text == lines[j] {
				longest[i][j] = longest[i+1][j+1] + 1
			} else {
				longest[i][j] = max(longest[i+1][j], longest[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(into) && j < len(lines) {
		switch {
		case into[i].text == lines[j]:
			merged = append(merged, ruleLine{into[i].text, append(into[i].rows, row)})
			i, j = i+1, j+1
		case longest[i+1][j] >= longest[i][j+1]:
			merged = append(merged, into[i])
			i++
		default:
			merged = append(merged, ruleLine{lines[j], []int{row}})
			j++
		}
	}
	merged = append(merged, into[i:]...)
	for ; j < len(lines); j++ {
		merged = append(merged, ruleLine{lines[j], []int{row}})
	}
	return merged
}

// alike reports whether two successive rules differ only in their status or only in their text, so that they share a
// line.
func alike(a, b providers.Rule) bool {
	if a.Field == "" || a.Status != b.Status || a.Through != b.Through {
		b.Status, b.Through = a.Status, a.Through
	} else {
		b.Equals = a.Equals
	}
	return a == b
}

func conditions(rules []providers.Rule) string {
	var statuses, texts []string
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
	return strings.Join(append([]string{strings.Join(statuses, ", ")}, moreConditions(rules[0], texts)...), "; ")
}

// moreConditions lists the conditions of a rule besides the status.
func moreConditions(r providers.Rule, texts []string) (parts []string) {
	if r.Header != "" {
		parts = append(parts, fmt.Sprintf("`%s`", strings.TrimSuffix(r.Header+": "+r.Value, ": ")))
	}
	switch {
	case r.Field != "" && len(texts) > 0:
		parts = append(parts, fmt.Sprintf("`%s` is %s", r.Field, anyOf(texts)))
	case r.Field != "":
		parts = append(parts, fmt.Sprintf("has `%s`", r.Field))
	}
	if r.Without != "" {
		parts = append(parts, fmt.Sprintf("lacks `%s`", r.Without))
	}
	switch r.On {
	case providers.AnyAttempt:
	case providers.FirstAttemptOwnKey:
		parts = append(parts, "first attempt, own key")
	default:
		parts = append(parts, r.On.String())
	}
	return parts
}

// anyOf lists alternative texts.
func anyOf(texts []string) string {
	switch len(texts) {
	case 1:
		return code(texts)
	case 2:
		return code(texts[:1]) + " or " + code(texts[1:])
	}
	return "one of " + code(texts)
}
