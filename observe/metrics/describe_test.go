package metrics_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/usher-dev/usher/observe/metrics"
)

func TestDescriptionsAreWhatIsThere(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := metrics.New(registry)
	everything(t, m)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]metrics.Description{}
	for _, family := range families {
		d := metrics.Description{Name: family.GetName(), Type: strings.ToLower(family.GetType().String()), Help: family.GetHelp()}
		for _, pair := range family.GetMetric()[0].GetLabel() {
			d.Labels = append(d.Labels, pair.GetName())
		}
		got[d.Name] = d
	}
	want := map[string]metrics.Description{}
	for _, d := range m.Descriptions() {
		want[d.Name] = d
	}
	sorted := cmp.Transformer("set", func(labels []string) map[string]bool {
		set := map[string]bool{}
		for _, label := range labels {
			set[label] = true
		}
		return set
	})
	if diff := cmp.Diff(want, got, sorted); diff != "" {
		t.Errorf("-described +there:\n%s", diff)
	}
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// The table of docs/metrics.md is the metrics: nothing is missing there, nothing is left.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `(usher_[a-z_]+)` \\| ([a-z]+) \\| ([^|]*) \\| ([^|]+) \\|")
	var documented []metrics.Description
	for _, cells := range row.FindAllStringSubmatch(string(text), -1) {
		d := metrics.Description{Name: cells[1], Type: cells[2], Help: cells[4]}
		for _, label := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(cells[3], -1) {
			d.Labels = append(d.Labels, label[1])
		}
		documented = append(documented, d)
	}
	if diff := cmp.Diff(metrics.New(nil).Descriptions(), documented); diff != "" {
		t.Errorf("docs/metrics.md: -code +table:\n%s", diff)
	}
	known := map[string]bool{}
	for _, d := range documented {
		known[d.Name] = true
	}
	for _, name := range regexp.MustCompile(`\busher_[a-z_]+`).FindAllString(string(text), -1) {
		base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
		if !known[name] && !known[base] {
			t.Errorf("docs/metrics.md mentions %s, which does not exist", name)
		}
	}
}
