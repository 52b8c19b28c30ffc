// Package prometheus_test checks the alert rules and the dashboard with Prometheus itself. It is a
// module of its own, so that Prometheus is a dependency of nothing else.
package prometheus_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"gopkg.in/yaml.v3"
)

const (
	root      = "../../"
	alerts    = root + "deploy/helm/usher/alerts.yaml"
	dashboard = root + "deploy/grafana/dashboard.json"
	metrics   = root + "docs/metrics.md"
	runbooks  = root + "docs/alerts.md"
	// length is how long the series of tests are.
	length = 40 * time.Minute
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func rules(t *testing.T) []rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.ParseFile(alerts, false)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var all []rulefmt.Rule
	for _, group := range groups.Groups {
		all = append(all, group.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("there are no rules")
	}
	return all
}

// TestRunbooks: each alert has a severity, and says where to read what to do.
func TestRunbooks(t *testing.T) {
	text := read(t, runbooks)
	for _, rule := range rules(t) {
		if !strings.Contains(text, "\n## "+rule.Alert+"\n") || !strings.HasSuffix(rule.Annotations["runbook_url"], "docs/alerts.md#"+strings.ToLower(rule.Alert)) {
			t.Errorf("%s has no section in docs/alerts.md, or another runbook_url", rule.Alert)
		}
		switch rule.Labels["severity"] {
		case "critical", "warning", "info":
		default:
			t.Errorf("%s has the severity %q", rule.Alert, rule.Labels["severity"])
		}
	}
	if got, want := strings.Count(text, "\n## "), len(rules(t)); got != want {
		t.Errorf("docs/alerts.md has %d sections for %d alerts", got, want)
	}
}

// TestAlerts: each alert fires on some series and not on others.
func TestAlerts(t *testing.T) {
	var cases []struct{ Alert, Fires, Quiet string }
	if err := yaml.Unmarshal([]byte(read(t, "testdata/alerts.yaml")), &cases); err != nil {
		t.Fatal(err)
	}
	byName := map[string]rulefmt.Rule{}
	for _, rule := range rules(t) {
		byName[rule.Alert] = rule
	}
	for _, c := range cases {
		rule, ok := byName[c.Alert]
		if !ok {
			t.Errorf("there is no alert %s", c.Alert)
			continue
		}
		delete(byName, c.Alert)
		if n := firing(t, rule, c.Fires); n < time.Duration(rule.For) {
			t.Errorf("%s has its condition for %s at the end, of %s:\n%s", c.Alert, n, rule.For, c.Fires)
		}
		if n := firing(t, rule, c.Quiet); n >= 0 {
			t.Errorf("%s fires on:\n%s", c.Alert, c.Quiet)
		}
	}
	for name := range byName {
		t.Errorf("%s has no case in testdata/alerts.yaml", name)
	}
}

// firing returns for how long the condition of an alert has held at the end of the series; -1 if it
// does not hold.
func firing(t *testing.T, rule rulefmt.Rule, series string) time.Duration {
	t.Helper()
	storage := promqltest.LoadedStorage(t, "load 1m\n"+indent(series))
	defer func() { _ = storage.Close() }()
	engine := promqltest.NewTestEngine(t, false, 5*time.Minute, 1_000_000)
	held := time.Duration(-1)
	for at := length; at >= length-30*time.Minute; at -= time.Minute {
		query, err := engine.NewInstantQuery(t.Context(), storage, nil, rule.Expr, time.Unix(0, 0).Add(at))
		if err != nil {
			t.Fatal(err)
		}
		result := query.Exec(t.Context())
		vector, err := result.Vector()
		if err != nil {
			t.Fatal(err)
		}
		holds := len(vector) > 0
		query.Close()
		if !holds {
			break
		}
		held = length - at
	}
	return held
}

func indent(series string) string {
	var b strings.Builder
	for line := range strings.Lines(series) {
		b.WriteString("  " + strings.TrimSpace(line) + "\n")
	}
	return b.String()
}

// documented are the metrics in docs/metrics.md, with the series of histograms.
func documented(t *testing.T) map[string]bool {
	t.Helper()
	known := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(usher_[a-z_]+)` \\| ([a-z]+) \\|").FindAllStringSubmatch(read(t, metrics), -1) {
		known[row[1]] = true
		if row[2] == "histogram" {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				known[row[1]+suffix] = true
			}
		}
	}
	if len(known) < 30 {
		t.Fatalf("docs/metrics.md has %d metrics", len(known))
	}
	return known
}

// check parses a query and checks that its metrics are there.
func check(t *testing.T, where, query string, known map[string]bool) {
	t.Helper()
	expr, err := parser.ParseExpr(query)
	if err != nil {
		t.Errorf("%s: %s: %v", where, query, err)
		return
	}
	selectors := 0
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok {
			selectors++
			name := s.Name
			for _, m := range s.LabelMatchers {
				if m.Name == labels.MetricName {
					name = m.Value
				}
			}
			if !known[name] {
				t.Errorf("%s: %s: docs/metrics.md has no %s", where, query, name)
			}
		}
		return nil
	})
	if selectors == 0 {
		t.Errorf("%s: %s reads nothing", where, query)
	}
}

func TestMetricsOfAlertsExist(t *testing.T) {
	known := documented(t)
	for _, rule := range rules(t) {
		check(t, rule.Alert, rule.Expr, known)
	}
}

// TestDashboard: every query of the dashboard can be parsed, its metrics are there, and panels neither
// overlap nor lack a title, a unit or a description.
func TestDashboard(t *testing.T) {
	type position struct{ X, Y, W, H int }
	var d struct {
		UID, Title    string
		SchemaVersion int
		Templating    struct {
			List []struct{ Name, Type, Definition string }
		}
		Panels []struct {
			ID                       int
			Type, Title, Description string
			GridPos                  position
			Datasource               struct{ UID string }
			FieldConfig              struct{ Defaults struct{ Unit string } }
			Targets                  []struct{ RefID, Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, dashboard)), &d); err != nil {
		t.Fatal(err)
	}
	if d.UID == "" || d.Title == "" || d.SchemaVersion < 30 || len(d.Templating.List) != 2 {
		t.Errorf("the dashboard is %+v", d)
	}
	known := documented(t)
	variables := strings.NewReplacer("$__rate_interval", "5m", `"$job"`, `".*"`)
	ids, queries := map[int]bool{}, 0
	taken := map[position]string{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.Title == "" {
			t.Errorf("panel %d %q: its id or title is not unique", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				at := position{X: x, Y: y}
				if taken[at] != "" || x >= 24 {
					t.Fatalf("panel %q covers %q, or leaves the grid", p.Title, taken[at])
				}
				taken[at] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Description == "" || p.FieldConfig.Defaults.Unit == "" || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
			t.Errorf("panel %q lacks a description, unit, data source or query", p.Title)
		}
		for _, target := range p.Targets {
			queries++
			check(t, p.Title, variables.Replace(target.Expr), known)
		}
	}
	if queries < 25 {
		t.Errorf("there are only %d queries", queries)
	}
}
