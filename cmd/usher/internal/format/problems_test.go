package format_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/usher/internal/format"
	"github.com/usher-dev/usher/cmd/usher/internal/format/formattest"
	"github.com/usher-dev/usher/internal/printable/printabletest"
	"github.com/usher-dev/usher/internal/rule"
)

// problemLog is what of a log the tests read.
type problemLog struct {
	Runs []struct {
		Tool struct {
			Driver struct{ Rules []struct{ ID string } }
		}
		Invocations []struct {
			ToolExecutionNotifications []struct {
				Level   string
				Message struct{ Text string }
			}
		}
		Results []struct {
			RuleID, Level string
			Message       struct{ Text string }
			Locations     []struct {
				PhysicalLocation struct {
					ArtifactLocation struct{ URI string }
					Region           struct{ StartLine, StartColumn int }
				}
			}
			PartialFingerprints map[string]string
		}
	}
}

// problemsLog returns the log of problems, which code scanning accepts.
func problemsLog(t *testing.T, problems []rule.Problem, notes ...string) problemLog {
	t.Helper()
	var out bytes.Buffer
	if err := format.ProblemsSARIF(&out, problems, notes, "v1.2.3"); err != nil {
		t.Fatal(err)
	}
	if err := formattest.SARIF(out.Bytes()); err != nil {
		t.Errorf("%v:\n%s", err, &out)
	}
	if controls := printabletest.Controls(strings.ReplaceAll(out.String(), "\n", "")); len(controls) > 0 {
		t.Errorf("the log has %q", controls)
	}
	var log problemLog
	if err := json.Unmarshal(out.Bytes(), &log); err != nil {
		t.Fatal(err)
	}
	return log
}

func TestProblemsSARIF(t *testing.T) {
	t.Parallel()
	policy := usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: "p"}
	log := problemsLog(t, []rule.Problem{
		{Severity: rule.Error, Policy: policy, File: "a b.yaml", Line: 7, Column: 3, Field: "spec.validations[0].expression", At: rule.Place{Line: 1, Column: 2}, What: "what", Do: "do"},
		{Severity: rule.Warning, Policy: policy, File: "a b.yaml", Line: 9, Field: "spec.validations[12].expression", At: rule.Place{Line: 4, Column: 2}, What: "odd"},
		{Severity: rule.Mistake, File: "/tmp/x.yaml", What: "never"},
		{Severity: rule.Error, File: "-", Line: 2, What: "[x](y) {0}"},
		{Severity: rule.Warning, What: "nowhere"},
	}, "not tried: p")
	var got []string
	for _, r := range log.Runs[0].Results {
		at := r.Locations[0].PhysicalLocation
		got = append(got, fmt.Sprintf("%s %s %s:%d:%d %s", r.RuleID, r.Level, at.ArtifactLocation.URI, at.Region.StartLine, at.Region.StartColumn, r.Message.Text))
	}
	want := []string{
		"policy/spec.validations[].expression error a%20b.yaml:7:3 ClusterObjectPolicy p: what; do",
		"policy/spec.validations[].expression warning a%20b.yaml:9:0 ClusterObjectPolicy p: odd (line 4, column 2)",
		"policy/file error file:///tmp/x.yaml:1:0 never",
		`policy/file error stdin.yaml:2:0 \[x\](y) {{0}}`,
		"policy/file warning policies:1:0 nowhere",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if rules := log.Runs[0].Tool.Driver.Rules; len(rules) != 2 {
		t.Errorf("rules %v, want one for each field", rules)
	}
	if notes := log.Runs[0].Invocations[0].ToolExecutionNotifications; len(notes) != 1 || notes[0].Level != "warning" || notes[0].Message.Text != "not tried: p" {
		t.Errorf("notifications %v", notes)
	}
}

// TestProblemsStayTheSame: alerts are followed by their fingerprints when lines move.
func TestProblemsStayTheSame(t *testing.T) {
	t.Parallel()
	fingerprint := func(p rule.Problem) string {
		return problemsLog(t, []rule.Problem{p}).Runs[0].Results[0].PartialFingerprints["usherProblem/v1"]
	}
	p := rule.Problem{Severity: rule.Error, File: "a.yaml", Line: 7, Column: 3, Field: "spec.x", What: "what"}
	moved, other := p, p
	moved.Line, moved.Column, moved.Do = 8, 4, "another way"
	other.What = "else"
	if fingerprint(p) == "" || fingerprint(p) != fingerprint(moved) || fingerprint(p) == fingerprint(other) {
		t.Errorf("fingerprints %q, %q moved, %q of another problem", fingerprint(p), fingerprint(moved), fingerprint(other))
	}
}

// TestProblemsOfOthers: text of others is neither links nor control characters, and errors come before warnings
// if there are too many.
func TestProblemsOfOthers(t *testing.T) {
	t.Parallel()
	hostile := "a\x1b[31m\u202e\n"
	all := []rule.Problem{{Severity: rule.Warning, Policy: usher.PolicyRef{Kind: "K", Name: hostile}, File: hostile, Field: hostile, What: hostile, Do: hostile}}
	problemsLog(t, all, hostile)
	all = append(all, make([]rule.Problem, 25_000)...)
	for i := range all {
		all[i].Severity, all[i].What = rule.Warning, "x"
	}
	all[len(all)-1].Severity = rule.Error
	log := problemsLog(t, all)
	results := log.Runs[0].Results
	if len(results) != 25_000 || results[0].Level != "error" || !strings.Contains(log.Runs[0].Invocations[0].ToolExecutionNotifications[0].Message.Text, "1 result is left out") {
		t.Errorf("%d results, the first of level %s", len(results), results[0].Level)
	}
}
