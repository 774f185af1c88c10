package coverage

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Make writes the document's tables anew of the runs that are kept, and returns the text.
func Make(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, Document))
	if err != nil {
		return "", err
	}
	var run Run
	if err := Read(root, RunFile, &run); err != nil {
		return "", err
	}
	var removed []Removed
	if err := Read(root, RemovedFile, &removed); err != nil {
		return "", err
	}
	whole := string(text)
	for _, table := range []struct {
		name string
		made func() (string, error)
	}{
		{"run", func() (string, error) { return summary(root, run) }},
		{"transitions", func() (string, error) { return transitionTable(root, run) }},
		{"conditions", func() (string, error) { return conditionTable(root, run) }},
		{"faults", func() (string, error) { return plain(root, run, Faults, "fault") }},
		{"errors", func() (string, error) { return plain(root, run, Errors, "error") }},
		{"verdicts", func() (string, error) { return verdictTable(root, run) }},
		{"functions", func() (string, error) { return functionTable(root, run) }},
		{"removed", func() (string, error) { return removedTable(removed), nil }},
	} {
		made, err := table.made()
		if err != nil {
			return "", err
		}
		mark := "<!-- table: " + table.name + " -->\n"
		before, rest, found := strings.Cut(whole, mark)
		if !found {
			return "", fmt.Errorf("%s has no place for %q", Document, table.name)
		}
		_, after, found := strings.Cut(rest, "<!-- end -->")
		if !found {
			return "", fmt.Errorf("%s: no end of %q", Document, table.name)
		}
		whole = before + mark + made + "<!-- end -->" + after
	}
	return whole, nil
}

// held are the tables whose rows say what there is to come past, and how many of their
// cells do.
var held = map[string]int{"transitions": 3, "conditions": 2, "faults": 1, "errors": 1, "verdicts": 1}

// Held returns of a document the cells that are held to the code; the others are counts,
// and tell of one run.
func Held(document string) (rows []string, err error) {
	for _, table := range slices.Sorted(maps.Keys(held)) {
		_, rest, found := strings.Cut(document, "<!-- table: "+table+" -->\n")
		if !found {
			return nil, fmt.Errorf("%s has no place for %q", Document, table)
		}
		within, _, _ := strings.Cut(rest, "<!-- end -->")
		for line := range strings.Lines(within) {
			if all := cells(strings.TrimSpace(line)); strings.HasPrefix(line, "|") {
				rows = append(rows, table+": "+strings.Join(all[:min(held[table], len(all))], ", "))
			}
		}
	}
	return rows, nil
}

func summary(root string, run Run) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "The latest run was of %d lives.\n\n| what | there are | visited |\n|---|---|---|\n", run.Lives)
	for _, part := range []struct {
		name string
		rows func(string) ([]Row, error)
	}{
		{"transitions of `journal.Next`", Transitions}, {"conditions of the resend rule, each of its two ways", ways},
		{"rows of the fault table", Faults}, {"errors", Errors}, {"verdicts of adapters", Verdicts}, {"functions of the client", Functions},
	} {
		rows, err := part.rows(root)
		if err != nil {
			return "", err
		}
		visited := 0
		for _, row := range rows {
			if run.Count(row) > 0 {
				visited++
			}
		}
		fmt.Fprintf(&b, "| %s | %d | %d |\n", part.name, len(rows), visited)
	}
	return b.String(), nil
}

// ways has a row for each way that a condition goes.
func ways(root string) ([]Row, error) {
	conditions, err := Conditions(root)
	var rows []Row
	for _, row := range conditions {
		for _, way := range []string{": true", ": false"} {
			rows = append(rows, Row{append(slices.Clone(row.Cells), way), way1(row, way)})
		}
	}
	return rows, err
}

func way1(row Row, way string) string {
	return strings.TrimSuffix(row.Visits, "(: true|: false)?$") + way + "$"
}

func transitionTable(root string, run Run) (string, error) {
	rows, err := Transitions(root)
	if err != nil {
		return "", err
	}
	known := map[string]bool{}
	for _, row := range rows {
		known["next: "+row.Cells[0]+", "+row.Cells[1]+": "+row.Cells[2]] = true
	}
	for _, name := range slices.Sorted(maps.Keys(run.Visits)) {
		if c := regexp.MustCompile(`^next: (\w+), (\w+): (.+)$`).FindStringSubmatch(name); c != nil && !known[name] {
			rows = append(rows, Row{[]string{c[1], c[2], c[3]}, exactly(name)})
		}
	}
	return lines("| state | event | comes to | visits |", rows, run), nil
}

func plain(root string, run Run, of func(string) ([]Row, error), head string) (string, error) {
	rows, err := of(root)
	return lines("| "+head+" | visits |", rows, run), err
}

func lines(head string, rows []Row, run Run) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n|%s\n", head, strings.Repeat("---|", strings.Count(head, "|")-1))
	for _, row := range rows {
		fmt.Fprintf(&b, "| %s | %s |\n", strings.Join(row.Cells, " | "), said(row, run))
	}
	return b.String()
}

// said is how often a row was visited or, if never, why.
func said(row Row, run Run) string {
	n := run.Count(row)
	if n > 0 {
		return fmt.Sprint(n)
	}
	if why := whyNever(row); why != "" {
		return "never: " + why
	}
	return "never"
}

func conditionTable(root string, run Run) (string, error) {
	rows, err := Conditions(root)
	var b strings.Builder
	b.WriteString("| function | condition | true | false |\n|---|---|---|---|\n")
	for _, row := range rows {
		row.Cells[1] = strings.ReplaceAll(row.Cells[1], "|", `\|`)
		fmt.Fprintf(&b, "| %s |", strings.Join(row.Cells, " | "))
		for _, way := range []string{": true", ": false"} {
			fmt.Fprintf(&b, " %s |", said(Row{append(slices.Clone(row.Cells), way), way1(row, way)}, run))
		}
		b.WriteString("\n")
	}
	return b.String(), err
}

func verdictTable(root string, run Run) (string, error) {
	rows, err := Verdicts(root)
	var b strings.Builder
	counts, names := map[string]map[string]string{}, []string{}
	put := func(row Row) {
		name := row.Cells[0]
		if counts[name] == nil {
			counts[name], names = map[string]string{}, append(names, name)
		}
		counts[name][row.Cells[1]] = "never"
		if n := run.Count(row); n > 0 {
			counts[name][row.Cells[1]] = fmt.Sprint(n)
		}
	}
	for _, row := range rows {
		put(row)
	}
	for _, name := range slices.Sorted(maps.Keys(run.Visits)) {
		if c := regexp.MustCompile(`^verdict: (.+), ([a-z ]+)$`).FindStringSubmatch(name); c != nil && (counts[c[1]] == nil || counts[c[1]][c[2]] == "") {
			put(Row{[]string{c[1], c[2]}, exactly(name)})
		}
	}
	visited := slices.ContainsFunc(rows, func(row Row) bool { return run.Count(row) > 0 })
	if !visited {
		b.WriteString("No life is lived at an adapter's provider: the lives have contracts of their own, below.\n\n")
	}
	fmt.Fprintf(&b, "| provider | %s |\n|%s\n", strings.Join(verdicts, " | "), strings.Repeat("---|", len(verdicts)+1))
	for _, name := range names {
		fmt.Fprintf(&b, "| %s |", name)
		for _, v := range verdicts {
			if counts[name][v] == "" {
				counts[name][v] = "–"
			}
			fmt.Fprintf(&b, " %s |", counts[name][v])
		}
		b.WriteString("\n")
	}
	return b.String(), err
}

func functionTable(root string, run Run) (string, error) {
	rows, err := Functions(root)
	var b strings.Builder
	b.WriteString("| file | functions | entered | never entered |\n|---|---|---|---|\n")
	for i := 0; i < len(rows); {
		file, entered, never, n := rows[i].Cells[0], 0, []string{}, 0
		for ; i < len(rows) && rows[i].Cells[0] == file; i++ {
			n++
			if run.Count(rows[i]) > 0 {
				entered++
			} else {
				never = append(never, rows[i].Cells[1])
			}
		}
		if n > entered {
			fmt.Fprintf(&b, "| %s | %d | %d | %s |\n", file, n, entered, strings.Join(never, ", "))
		}
	}
	return b.String(), err
}

func removedTable(removed []Removed) string {
	var b strings.Builder
	found, tested, least, most := 0, 0, math.MaxInt, 0
	for _, r := range removed {
		switch {
		case r.Fault != "":
			found++
		case r.Test != "":
			tested++
		}
		least, most = min(least, r.Of), max(most, r.Of)
	}
	of := fmt.Sprint(most)
	if least < most {
		of = fmt.Sprintf("%d, or %d,", least, most)
	}
	fmt.Fprintf(&b, "Of %d clauses, lives found %d, and a test of the client finds %d of the others; %d are left, for the reason that each has. Each was taken away in some of those of %s lives in which it makes a difference where it is asked.\n\n| clause | makes a difference in | found in | by |\n|---|---|---|---|\n", len(removed), found, tested, len(removed)-found-tested, of)
	for _, r := range removed {
		clause := "`" + strings.ReplaceAll(r.Clause, "|", `\|`) + "`"
		if r.Fault != "" {
			in := fmt.Sprintf("life %d, the %s of them", r.Seed, nth(r.Lived))
			if r.Seed == 0 {
				in = fmt.Sprintf("the first %d of them", r.Lived) // it ends all lives at once, and does not say whose it was
			}
			fmt.Fprintf(&b, "| %s | %d | %s | %s |\n", clause, r.Mattered, in, strings.ReplaceAll(shortened(r.Fault), "|", `\|`))
			continue
		}
		by := fmt.Sprintf("not in %d", r.Lived)
		if why := whyNotFound(r.Clause); why != "" {
			by += ": " + why
		}
		if r.Test != "" {
			by += "; by `" + r.Test + "`"
		}
		fmt.Fprintf(&b, "| %s | %d | – | %s |\n", clause, r.Mattered, by)
	}
	return b.String()
}

func nth(n int) string {
	ending := "th"
	if n/10%10 != 1 {
		switch n % 10 {
		case 1:
			ending = "st"
		case 2:
			ending = "nd"
		case 3:
			ending = "rd"
		}
	}
	return fmt.Sprint(n, ending)
}

func shortened(text string) string {
	const most = 120
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "…"
	}
	return text
}
