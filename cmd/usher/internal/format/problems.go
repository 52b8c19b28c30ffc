package format

import (
	"cmp"
	"io"
	"regexp"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/rule"
)

// ProblemsSARIF writes problems of policies as a log of SARIF 2.1.0. A rule of it is a field of policies. Notes
// are what else the command says.
func ProblemsSARIF(w io.Writer, problems []rule.Problem, notes []string, version string) error {
	run := newRun(version)
	run.ColumnKind = "unicodeCodePoints"
	for _, note := range notes {
		run.notify("warning", note)
	}
	for _, p := range mostSerious(run, problems, func(a, b rule.Problem) int { return cmp.Compare(levelOf(a), levelOf(b)) }) {
		id := fieldRule(p.Field)
		run.add(sarifProblem(&p, id), func() sarifRule { return sarifFieldRule(id) })
	}
	return run.encode(w)
}

// position matches what tells the items of a list apart.
var position = regexp.MustCompile(`\[\d+\]`)

// Rules are named after the field, or wholeFile.
const (
	rulePrefix = "policy/"
	wholeFile  = "file"
)

// fieldRule names the rule for problems of a field.
func fieldRule(field string) string {
	return rulePrefix + cmp.Or(printable.Line(position.ReplaceAllString(field, "[]")), wholeFile)
}

func sarifFieldRule(id string) sarifRule {
	description := sarifText{"problems in " + strings.TrimPrefix(id, rulePrefix) + " of policies"}
	if id == rulePrefix+wholeFile {
		description.Text = "problems of files and of whole policies"
	}
	return sarifRule{
		ID:               id,
		ShortDescription: description,
		FullDescription:  description,
		Help:             sarifText{"The message says what is wrong with the policy, and what to do."},
		Configuration:    sarifLevel{"error"},
	}
}

// levelOf is the level of a problem: error or warning.
func levelOf(p rule.Problem) string {
	if p.Severity == rule.Warning {
		return "warning"
	}
	return "error"
}

func sarifProblem(p *rule.Problem, id string) sarifResult {
	policy, about := "", p.What
	if p.Column == 0 {
		about = p.Text()
	}
	if p.Policy != (usher.PolicyRef{}) {
		policy = policyName(p.Policy)
		about = policy + ": " + about
	}
	if p.Do != "" {
		about += "; " + p.Do
	}
	found := sarifResult{
		RuleID: id, Kind: "fail", Level: levelOf(*p), Message: sarifMessage(about),
		Locations: []sarifLocation{{Physical: sarifPhysical{
			Artifact: artifact(cmp.Or(p.File, "policies")),
			Region:   sarifRegion{max(p.Line, 1), p.Column},
		}}},
		Fingerprints: map[string]string{"usherProblem/v1": fingerprint(id, policy, p.Field, p.What, p.File)},
	}
	if policy != "" {
		found.Locations[0].Logical = []sarifLogical{{printable.Line(p.Policy.Name), policy, "resource"}}
	}
	if p.Field != "" {
		found.Properties = map[string]any{"field": printable.Line(p.Field)}
	}
	return found
}
