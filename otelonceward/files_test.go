package otelonceward_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// expressions returns the queries of the alert rules and of the dashboard, by their places.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, r := range rules(t) {
		all["alert "+r.Alert] = r.Expr
	}
	text, err := os.ReadFile("grafana/onceward.json")
	require.NoError(t, err)
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Name, Query string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &board))
	for _, p := range board.Panels {
		for i, target := range p.Targets {
			all["panel "+p.Title+string(rune('A'+i))] = target.Expr
		}
	}
	for _, v := range board.Templating.List[1:] {
		all["variable "+v.Name] = v.Query
	}
	require.Greater(t, len(all), 50)
	return all
}

type rule struct {
	Alert, Expr string
	Labels      map[string]string
	Annotations map[string]string
}

func rules(t *testing.T) (all []rule) {
	t.Helper()
	text, err := os.ReadFile("prometheus/rules.yaml")
	require.NoError(t, err)
	var file struct{ Groups []struct{ Rules []rule } }
	require.NoError(t, yaml.Unmarshal(text, &file))
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	require.NotEmpty(t, all)
	return all
}

var (
	metricName = regexp.MustCompile(`\bonceward_[a-z_]+(?:\{|\b)`)
	labelled   = regexp.MustCompile(`(onceward_[a-z_]+|error_type)(?:=~|!=|=)"`)
	grouped    = regexp.MustCompile(`by \(([^)]*)\)`)
	queried    = regexp.MustCompile(`label_values\([a-z_]+, ([a-z_]+)\)`)
)

// Every metric and label that a rule or a panel names is in a real scrape.
func TestNamesOfRulesAndPanelsExist(t *testing.T) {
	scraped := everything(t).scrape()
	names, labels := map[string]bool{}, map[string]bool{"le": true, "job": true, "instance": true}
	for line := range strings.Lines(scraped) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, rest, _ := strings.Cut(line, "{")
		names[strings.Fields(name)[0]] = true
		for _, label := range regexp.MustCompile(`([a-z_]+)="`).FindAllStringSubmatch(rest, -1) {
			labels[label[1]] = true
		}
	}
	for _, only := range []string{"onceward_looks_total", "onceward_finding", "onceward_source"} { // missing in this scrape
		names[only], labels[only] = true, true
	}
	for where, expr := range expressions(t) {
		isLabel := map[string]bool{}
		note := func(label string) {
			isLabel[label] = true
			assert.True(t, labels[label], "%s has the label %s, which is in no scrape", where, label)
		}
		for _, m := range labelled.FindAllStringSubmatch(expr, -1) {
			note(m[1])
		}
		for _, m := range grouped.FindAllStringSubmatch(expr, -1) {
			for label := range strings.SplitSeq(m[1], ",") {
				note(strings.TrimSpace(label))
			}
		}
		for _, m := range queried.FindAllStringSubmatch(expr, -1) {
			note(m[1])
		}
		found := false
		for _, name := range metricName.FindAllString(expr, -1) {
			name = strings.TrimSuffix(name, "{")
			if isLabel[name] {
				continue
			}
			found = true
			assert.True(t, names[name], "%s reads %s, which is in no scrape", where, name)
		}
		assert.True(t, found, where)
	}
}

// The stats of a journal cover all processes that share it. A sum over the processes would count them twice.
func TestStatsAreNeverSummed(t *testing.T) {
	stats := regexp.MustCompile(`sum\b[^(]*(?:\([^)]*\) )?\((?:rate\()?onceward_journal_(?:operation_count|due|undelivered|attention|unread|flow|session|restored|file|wal|pending|unknown|set_aside|clock|receipt)`)
	for where, expr := range expressions(t) {
		assert.False(t, stats.MatchString(expr), where)
	}
	assert.True(t, stats.MatchString(`sum by (a) (onceward_journal_attention_count)`), "it would be seen")
}

// Every alert leads to a heading of the runbook, and so does every state.
func TestRunbookHasEveryAlertAndState(t *testing.T) {
	text, err := os.ReadFile("../docs/runbook.md")
	require.NoError(t, err)
	var anchors []string
	for line := range strings.Lines(string(text)) {
		if level := len(line) - len(strings.TrimLeft(line, "#")); level > 0 {
			title := strings.ToLower(strings.TrimSpace(line[level:]))
			anchors = append(anchors, strings.ReplaceAll(regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(title, ""), " ", "-"))
		}
	}
	for _, r := range rules(t) {
		address, anchor, _ := strings.Cut(r.Annotations["runbook_url"], "#")
		assert.True(t, strings.HasSuffix(address, "/docs/runbook.md"), r.Alert)
		assert.Contains(t, anchors, anchor, r.Alert)
		assert.Contains(t, []string{"page", "ticket"}, r.Labels["severity"], r.Alert)
		assert.NotEmpty(t, r.Annotations["summary"], r.Alert)
	}
	for _, state := range []string{"pending", "in-flight", "completed", "unknown", "cancelled", "set-aside", "restored", "second-effect"} {
		assert.True(t, slices.Contains(anchors, state), "the state %s has no heading", state)
	}
}

// promtoolIn returns the path of promtool. Without promtool the test is skipped, or fails if it is required.
func promtoolIn(t *testing.T) string {
	t.Helper()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("ONCEWARD_PROMTOOL") == "required" {
			t.Fatal("there is no promtool; Debian has it in the package prometheus")
		}
		t.Skip("there is no promtool; Debian has it in the package prometheus")
	}
	return promtool
}

// The query of every panel, as Grafana fills it in, has a result over the series of a real scrape, whose counters go
// on rising.
func TestPanelsShowSomething(t *testing.T) {
	promtool := promtoolIn(t)
	var b strings.Builder
	b.WriteString("evaluation_interval: 1m\ntests:\n  - interval: 1m\n    input_series:\n")
	for line := range strings.Lines(everything(t).scrape() + `onceward_looks_total{onceward_finding="executed",onceward_source="look",onceward_provider="stripe"} 1` + "\n") {
		if cut := strings.LastIndexByte(line, ' '); strings.HasPrefix(line, "onceward_") {
			series, rises := line[:cut], "0"
			if name, _, _ := strings.Cut(series, "{"); regexp.MustCompile(`_(total|bucket|count|sum)$`).MatchString(name) && !strings.HasPrefix(name, "onceward_journal_operation") {
				rises = "1"
			}
			fmt.Fprintf(&b, "      - {series: '%s', values: '%s+%sx30'}\n", series, strings.TrimSpace(line[cut+1:]), rises)
		}
	}
	b.WriteString("    promql_expr_test:\n")
	filled := strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", "$journal", ".*", "$provider", ".*", "$job", ".*", "$instance", ".*")
	panels := 0
	for where, expr := range expressions(t) {
		if !strings.HasPrefix(where, "panel ") {
			continue
		}
		panels++
		expr = filled.Replace(expr)
		require.NotContains(t, expr, "$", where)
		fmt.Fprintf(&b, "      - {expr: %q, eval_time: 20m, exp_samples: [{labels: '{}', value: 1}]}\n", "count("+expr+") > bool 0")
	}
	require.Greater(t, panels, 20)
	file := filepath.Join(t.TempDir(), "panels.yaml")
	require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o600))
	out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", file).CombinedOutput()
	require.NoError(t, err, string(out))
}

func TestRulesFireAsTheyShould(t *testing.T) {
	promtool := promtoolIn(t)
	for _, args := range [][]string{{"check", "rules", "rules.yaml"}, {"test", "rules", "rules_test.yaml"}} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir = "prometheus"
		out, err := cmd.CombinedOutput()
		assert.NoError(t, err, string(out))
	}
	tested, err := os.ReadFile("prometheus/rules_test.yaml")
	require.NoError(t, err)
	for _, r := range rules(t) {
		name := strings.TrimPrefix(r.Alert, "Onceward")
		assert.Contains(t, string(tested), "- name: "+name+", fires\n")
		assert.Contains(t, string(tested), "- name: "+name+", does not fire\n")
	}
}
