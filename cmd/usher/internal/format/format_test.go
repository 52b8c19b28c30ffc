package format_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/format"
	"github.com/usher-dev/usher/cmd/usher/internal/format/formattest"
	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/printable"
)

var update = flag.Bool("update", false, "write the golden files")

// formats are all formats, with the suffix of their golden files.
func formats() map[string]func(io.Writer, *format.Report) error {
	return map[string]func(io.Writer, *format.Report) error{
		"text":       func(w io.Writer, r *format.Report) error { return format.Text(w, r, format.Layout{}) },
		"narrow.txt": func(w io.Writer, r *format.Report) error { return format.Text(w, r, format.Layout{Width: 70}) },
		"policy.txt": func(w io.Writer, r *format.Report) error { return format.Text(w, r, format.Layout{ByPolicy: true}) },
		"sarif":      func(w io.Writer, r *format.Report) error { return format.SARIF(w, r, "v1.2.3") },
		"md":         format.Markdown,
		"xml":        format.JUnit,
		"json": func(w io.Writer, r *format.Report) error {
			output := cli.OutputFlag{Choice: cli.Choice{Value: "json"}}
			return output.Encode(w, r)
		},
	}
}

func policy(name string) usher.PolicyRef {
	return usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: name}
}

// report has every status, with and without severity, field, place and policy.
func report() *format.Report {
	web := result.Identity{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web"}
	pod := result.Identity{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "cart"}
	until := time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
	exemption := &usher.Exemption{
		PolicyRef: usher.PolicyRef{Kind: "PolicyExemption", Namespace: "shop", Name: "old-cart"}, Reason: "moved in March", Owner: "shop@example.com", ExpiresAt: until,
	}
	r := &format.Report{
		Objects: 3,
		Results: []format.Result{
			{Result: result.Result{Object: web, Policy: policy("tags"), Rule: "spec.validations[0]", Validation: "latest", Status: result.Fail, Message: "pin the version", Field: "spec.template.spec.containers[0].image", Severity: "medium", Category: "Supply Chain", Actions: []usher.Action{usher.ActDeny}}, File: "deploy/web app.yaml", Line: 12},
			{Result: result.Result{Object: web, Policy: policy("host"), Rule: "spec.validations[0]", Status: result.Fail, Message: "spec.hostNetwork must not be true, because pods on the network of their node get around every NetworkPolicy", Field: "spec.hostNetwork", Severity: "critical"}, File: "deploy/web app.yaml", Line: 9},
			{Result: result.Result{Object: pod, Policy: policy("host"), Rule: "spec.validations[0]", Status: result.Warn, Message: "would change spec.hostNetwork", Severity: "high"}, File: "-"},
			{Result: result.Result{Object: pod, Policy: policy("broken"), Rule: "spec.validations[0]", Status: result.Error, Message: "no such key: x"}, File: "/srv/pod.yaml"},
			{Result: result.Result{Object: pod, Policy: policy("tags"), Rule: "spec.validations[0]", Status: result.Skip, Message: "exempt: moved in March", Severity: "low", Exemption: exemption, WithoutExemption: result.Fail, Actions: []usher.Action{usher.ActAudit}}},
			{Result: result.Result{Object: result.Identity{APIVersion: "metrics.k8s.io/v1beta1", Kind: "*"}, Status: result.Error, Message: "*.metrics.k8s.io cannot be read: the server is currently unable to handle the request"}},
		},
		Policies: []result.PolicySummary{
			{PolicyRef: policy("tags"), Summary: result.Summary{Fail: 1, Skip: 1, Pass: 4}},
			{PolicyRef: policy("broken"), Summary: result.Summary{Error: 1}},
			{PolicyRef: policy("host"), Summary: result.Summary{Fail: 1, Warn: 1}},
			{PolicyRef: policy("ingress")},
		},
		Abouts: map[usher.PolicyRef]format.About{
			policy("tags"): {Description: "Images have tags.\nOthers move.", Links: []string{"javascript:alert(1)", "https://kubernetes.io/docs/concepts/containers/images/"}},
			policy("host"): {Description: "Pods stay off the network of the node."},
		},
		NotJudged: []judge.Unjudged{{Policy: policy("host"), Rule: "spec.validations[1]", Reason: "it reads the user of the request"}},
		Summary:   result.Summary{Fail: 2, Warn: 1, Error: 2, Skip: 1, Pass: 4},
	}
	r.Sort()
	return r
}

func TestFormats(t *testing.T) {
	t.Parallel()
	for name, write := range formats() {
		for kind, r := range map[string]*format.Report{"report": report(), "empty": {Results: []format.Result{}, Policies: []result.PolicySummary{}}} {
			t.Run(kind+"."+name, func(t *testing.T) {
				t.Parallel()
				var got bytes.Buffer
				if err := write(&got, r); err != nil {
					t.Fatal(err)
				}
				valid(t, name, got.Bytes())
				golden := filepath.Join("testdata", kind+"."+name)
				if *update {
					if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(golden)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(want), got.String()); diff != "" {
					t.Errorf("%s (-want +got):\n%s", golden, diff)
				}
			})
		}
	}
}

// TestSARIFSays tells the level, the score and the headline that code scanning shows.
func TestSARIFSays(t *testing.T) {
	t.Parallel()
	deny, warn, audit := usher.ActDeny, usher.ActWarn, usher.ActAudit
	for _, row := range []struct {
		reason                 string
		result                 result.Result
		level, score, headline string
	}{
		{"low, and denied", result.Result{Status: result.Fail, Severity: "low", Actions: []usher.Action{deny}, Rule: "spec.validations[0]", Message: "label team is required"}, "error", "2.0", "label team is required"},
		{"critical, and warned of", result.Result{Status: result.Warn, Severity: "critical", Actions: []usher.Action{warn}, Rule: "spec.validations[0]", Validation: "team"}, "warning", "9.5", "ClusterObjectPolicy p team"},
		{"warned of and recorded", result.Result{Status: result.Fail, Severity: "high", Actions: []usher.Action{warn, audit}, Rule: "spec.validations[0]", Message: "no. Never"}, "warning", "8.0", "no."},
		{"only recorded", result.Result{Status: result.Fail, Severity: "info", Actions: []usher.Action{audit}, Rule: "spec.validations[0]", Message: "no"}, "note", "", "no"},
		{"its pods are denied", result.Result{Status: result.Fail, Severity: "medium", Actions: []usher.Action{warn}, Rule: "spec.validations[0]", Message: result.OfPods + "no"}, "error", "5.5", "no"},
		{"it fails", result.Result{Status: result.Error, Rule: "spec.validations[0]", Message: "no such key: x"}, "error", "", "ClusterObjectPolicy p spec.validations[0]"},
	} {
		row.result.Policy = policy("p")
		var got bytes.Buffer
		if err := format.SARIF(&got, &format.Report{Objects: 1, Results: []format.Result{{Result: row.result}}}, "v1.2.3"); err != nil {
			t.Fatal(err)
		}
		var log struct {
			Runs []struct {
				Tool struct {
					Driver struct {
						Rules []struct {
							ShortDescription struct{ Text string }
							Properties       map[string]any
						}
					}
				}
				Results []struct{ Level string }
			}
		}
		if err := json.Unmarshal(got.Bytes(), &log); err != nil {
			t.Fatal(err)
		}
		rule := log.Runs[0].Tool.Driver.Rules[0]
		score, _ := rule.Properties["security-severity"].(string)
		if level := log.Runs[0].Results[0].Level; level != row.level || score != row.score || rule.ShortDescription.Text != row.headline {
			t.Errorf("%s: level %q, score %q, headline %q; want %q, %q, %q", row.reason, level, score, rule.ShortDescription.Text, row.level, row.score, row.headline)
		}
	}
}

// valid has parsers of others read the output.
func valid(t *testing.T, name string, output []byte) {
	t.Helper()
	switch name {
	case "sarif":
		if err := formattest.SARIF(output); err != nil {
			t.Errorf("%v\n%s", err, output)
		}
	case "json":
		if !json.Valid(output) {
			t.Errorf("not JSON: %s", output)
		}
	case "xml":
		validJUnit(t, output)
	}
}

// validJUnit compares the counts of each suite with its cases, as viewers show both.
func validJUnit(t *testing.T, output []byte) {
	t.Helper()
	var suites struct {
		Suites []struct {
			Name     string `xml:"name,attr"`
			Tests    int    `xml:"tests,attr"`
			Failures int    `xml:"failures,attr"`
			Errors   int    `xml:"errors,attr"`
			Skipped  int    `xml:"skipped,attr"`
			Cases    []struct {
				Name    string    `xml:"name,attr"`
				Class   string    `xml:"classname,attr"`
				Failure *struct{} `xml:"failure"`
				Error   *struct{} `xml:"error"`
				Skipped *struct{} `xml:"skipped"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(output, &suites); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	for _, s := range suites.Suites {
		var failures, errs, skipped int
		for _, c := range s.Cases {
			if c.Class == "" {
				t.Errorf("a case of %s has no class", s.Name)
			}
			for counted, n := range map[*struct{}]*int{c.Failure: &failures, c.Error: &errs, c.Skipped: &skipped} {
				if counted != nil {
					*n++
				}
			}
		}
		if got := [4]int{s.Tests, s.Failures, s.Errors, s.Skipped}; got != [4]int{len(s.Cases), failures, errs, skipped} {
			t.Errorf("suite %s counts %v, and has %v", s.Name, got, [4]int{len(s.Cases), failures, errs, skipped})
		}
	}
}

// hostile are texts that attack terminals, browsers, parsers and reviewers.
func hostile() []string {
	return []string{
		"\x1b[2J\x1b]0;owned\x07", "\u202egnp.exe", "a\r\nfail  -  forged line\n\x00\x08", "\xff\xfe", "\u2028\u2029\ufeff",
		"<script>alert(1)</script><img src=x onerror=alert(1)>", "]]></failure><testcase name=\"forged\"/>", "&lt;&#0;&bogus;",
		"| forged | **cell** |", "`code` ``more`` ```", "\\| \\` \\", "[click](https://evil.example) ![x](https://evil.example/x.png)",
		"https://evil.example www.evil.example a@evil.example", "@everyone #1 org/repo#2", "$\\href{https://evil.example}{x}$", "{0} {1} [x](1)",
		"%s %d %!", strings.Repeat("long ", 3000), strings.Repeat("x", 100_000), "",
	}
}

// TestJUnitOfRulesThatAreNotJudged does not say that a policy is for no object.
func TestJUnitOfRulesThatAreNotJudged(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	r := &format.Report{Objects: 2, Policies: []result.PolicySummary{{PolicyRef: policy("user"), Summary: result.Summary{Skip: 2}}}, Summary: result.Summary{Skip: 2}}
	if err := format.JUnit(&got, r); err != nil {
		t.Fatal(err)
	}
	if text := got.String(); !strings.Contains(text, `name="2 not judged"`) || strings.Contains(text, "no object is of its kinds") {
		t.Errorf("JUnit writes\n%s", text)
	}
}

// TestManyResults has one more result than code scanning accepts: the least serious is left out, and
// the log says so.
func TestManyResults(t *testing.T) {
	t.Parallel()
	const most = 25_000
	r := &format.Report{Results: make([]format.Result, most+1), Summary: result.Summary{Fail: most, Skip: 1}}
	for i := range r.Results {
		status := result.Fail
		if i == 7 {
			status = result.Skip
		}
		r.Results[i] = format.Result{Result: result.Result{
			Object: result.Identity{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: fmt.Sprintf("web-%d", i)},
			Policy: policy("tags"), Rule: "spec.validations[0]", Status: status, Message: "pin the version",
		}}
	}
	var got bytes.Buffer
	if err := format.SARIF(&got, r, "v1.2.3"); err != nil {
		t.Fatal(err)
	}
	if err := formattest.SARIF(got.Bytes()); err != nil {
		t.Error(err)
	}
	if text := got.String(); strings.Count(text, `"ruleIndex"`) != most || strings.Contains(text, "notApplicable") || !strings.Contains(text, "1 result is left out, ") {
		t.Errorf("%d results in SARIF of %d bytes", strings.Count(text, `"ruleIndex"`), len(text))
	}
}

// TestHostileText puts hostile text wherever a report has text.
// TestMarkdownOfDigests: a command shows all of a digest, which mentions nobody.
func TestMarkdownOfDigests(t *testing.T) {
	t.Parallel()
	r := report()
	r.Results[0].Message = "append the digest (NAME@sha256:…)"
	var got bytes.Buffer
	if err := format.Markdown(&got, r); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(got.String(), `(NAME@<!-- -->sha256\:…)`) || printable.Lines(got.String()) != got.String() {
		t.Errorf("no digest, or not as it is printed:\n%s", got.String())
	}
}

func TestHostileText(t *testing.T) {
	t.Parallel()
	for i, text := range hostile() {
		ref := usher.PolicyRef{Kind: "ObjectPolicy", Namespace: text, Name: text}
		one := format.Result{File: text, Line: 1, Result: result.Result{
			Object: result.Identity{APIVersion: text, Kind: text, Namespace: text, Name: text},
			Policy: ref, Rule: text, Validation: text, Message: text, Field: text, Category: text, Severity: usher.Severity(text), Status: result.Fail,
			Exemption: nil,
		}}
		exempt := one
		exempt.Status, exempt.Exemption = result.Skip, &usher.Exemption{PolicyRef: ref, Reason: text, Owner: text}
		r := &format.Report{
			Objects: 1, Results: []format.Result{one, exempt}, Policies: []result.PolicySummary{{PolicyRef: ref, Summary: result.Summary{Fail: 1}}, {PolicyRef: ref}},
			Kinds:     []result.KindStatus{{Resource: text, Version: text, Error: text}},
			NotJudged: []judge.Unjudged{{Policy: ref, Rule: text, Reason: text}}, Summary: result.Summary{Fail: 1, Skip: 1},
		}
		for name, write := range formats() {
			t.Run(fmt.Sprintf("%d.%s", i, name), func(t *testing.T) {
				t.Parallel()
				var got bytes.Buffer
				if err := write(&got, r); err != nil {
					t.Fatal(err)
				}
				valid(t, name, got.Bytes())
				harmless(t, name, got.String())
			})
		}
	}
}

func harmless(t *testing.T, name, output string) {
	t.Helper()
	for _, c := range output {
		if unicode.IsControl(c) && c != '\n' || c == '\u202e' && name != "json" || c == '\u2028' {
			t.Errorf("the output has %U", c)
			break
		}
	}
	if strings.HasSuffix(name, "txt") || name == "text" {
		if strings.Contains(output, "\nfail  -  forged") {
			t.Error("a message begins a line")
		}
	}
	if name != "md" {
		return
	}
	if len(output) > 65_536 {
		t.Errorf("the comment has %d bytes, which GitHub does not accept", len(output))
	}
	outside := spans(output)
	for _, bad := range []string{"<script", "<img", "](", "https:", "www.evil.example", "@everyone", "@evil", "#1", "#2", "| forged", "$\\href", "&lt;"} {
		if strings.Contains(outside, bad) {
			t.Errorf("Markdown has %q outside of code", bad)
		}
	}
}

// spans removes escaped characters and the code spans of Markdown, as CommonMark finds them: from a run of backticks to the
// next run of the same length, within a cell.
func spans(markdown string) string {
	var b strings.Builder
	for line := range strings.Lines(markdown) {
		for line != "" {
			at := strings.IndexAny(line, "`\\")
			if at < 0 {
				b.WriteString(line)
				break
			}
			if line[at] == '\\' {
				b.WriteString(line[:at])
				line = line[min(at+2, len(line)):]
				continue
			}
			b.WriteString(line[:at])
			run := len(line[at:]) - len(strings.TrimLeft(line[at:], "`"))
			rest := line[at+run:]
			end := closing(rest, run)
			if end < 0 {
				b.WriteString(line[at:])
				break
			}
			line = rest[end:]
		}
	}
	return b.String()
}

// closing returns the end of the first run of exactly n backticks.
func closing(text string, n int) int {
	for i := 0; i < len(text); {
		if text[i] != '`' {
			i++
			continue
		}
		run := len(text[i:]) - len(strings.TrimLeft(text[i:], "`"))
		if i += run; run == n {
			return i
		}
	}
	return -1
}
