package docs_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/cuecontext"
	"sigs.k8s.io/yaml"
)

// TestSecurityInsights: the file is one of its specification, what it links exists.
func TestSecurityInsights(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "security-insights.yml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := asInsights(t, text); err != nil {
		t.Error(err)
	}
	for reason, replace := range map[string][2]string{
		"a misspelled field": {"reports-accepted", "reports-acepted"},
		"an unknown status":  {"status: WIP", "status: finished"},
		"a missing field":    {"  name: Usher\n", ""},
		"another version":    {"schema-version: 2.1.0", "schema-version: 1.0.0"},
	} {
		if asInsights(t, []byte(strings.Replace(string(text), replace[0], replace[1], 1))) == nil {
			t.Errorf("%s is not refused", reason)
		}
	}
	links := regexp.MustCompile(`https://github\.com/usher-dev/usher/blob/main/(\S+)`).FindAllStringSubmatch(string(text), -1)
	for _, link := range links {
		checkLink(t, "security-insights.yml", filepath.Join(root, "x"), link[1])
	}
	if len(links) < 10 {
		t.Errorf("it has %d links", len(links))
	}
}

func asInsights(t *testing.T, text []byte) error {
	t.Helper()
	schema, err := os.ReadFile("testdata/security-insights.cue")
	if err != nil {
		t.Fatal(err)
	}
	var value any
	if err := yaml.UnmarshalStrict(text, &value); err != nil {
		return err
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return err
	}
	c := cuecontext.New()
	definition := c.CompileBytes(schema).LookupPath(cue.ParsePath("#insights"))
	if err := definition.Err(); err != nil {
		t.Fatal(err)
	}
	return definition.Unify(c.CompileBytes(encoded)).Validate(cue.Concrete(true))
}

// TestSupport: the page has the version of Kubernetes that tests run, and the oldest one that the chart takes.
func TestSupport(t *testing.T) {
	t.Parallel()
	find := func(file, pattern string) string {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(pattern).FindSubmatch(text)
		if found == nil {
			t.Fatalf("%s does not match %s", file, pattern)
		}
		return string(found[1])
	}
	page, err := os.ReadFile("support.md")
	if err != nil {
		t.Fatal(err)
	}
	tested := find("sandbox/go.mod", `k8s\.io/kubernetes v(\S+)`)
	minor := tested[:strings.LastIndex(tested, ".")]
	for _, want := range []string{
		"kube-apiserver and etcd of " + tested,
		"| " + minor + " | supported | everything",
		"installs on Kubernetes " + find("deploy/helm/usher/Chart.yaml", `kubeVersion: ">=([0-9.]+)\.0-0"`) + " or newer",
		"| Kubernetes | Usher " + find("deploy/helm/usher/Chart.yaml", `(?m)^version: (\d+\.\d+)`) + " |",
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("docs/support.md does not have %q", want)
		}
	}
}

// TestPlaceholders: only these files have some, and each says what it is. A release removes them.
func TestPlaceholders(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"MAINTAINERS.md", "ADOPTERS.md"} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "`<") && !strings.Contains(string(text), "placeholder") {
			t.Errorf("%s has placeholders, and does not say so", file)
		}
	}
}
