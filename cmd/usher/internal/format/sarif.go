package format

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/printable"
)

// The part of SARIF 2.1.0 that audits and checks use.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool        sarifTool         `json:"tool"`
		ColumnKind  string            `json:"columnKind,omitempty"`
		Invocations []sarifInvocation `json:"invocations"`
		Results     []sarifResult     `json:"results"`

		// index has the index of each rule, by ID.
		index map[string]int
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version,omitempty"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID               string         `json:"id"`
		ShortDescription sarifText      `json:"shortDescription"`
		FullDescription  sarifText      `json:"fullDescription"`
		Help             sarifText      `json:"help"`
		HelpURI          string         `json:"helpUri,omitempty"`
		Configuration    sarifLevel     `json:"defaultConfiguration"`
		Properties       map[string]any `json:"properties,omitempty"`
	}
	sarifLevel struct {
		Level string `json:"level"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifInvocation struct {
		Successful    bool                `json:"executionSuccessful"`
		Notifications []sarifNotification `json:"toolExecutionNotifications,omitempty"`
	}
	sarifNotification struct {
		Level   string    `json:"level"`
		Message sarifText `json:"message"`
	}
	sarifResult struct {
		RuleID       string             `json:"ruleId"`
		RuleIndex    int                `json:"ruleIndex"`
		Kind         string             `json:"kind"`
		Level        string             `json:"level"`
		Message      sarifText          `json:"message"`
		Locations    []sarifLocation    `json:"locations"`
		Fingerprints map[string]string  `json:"partialFingerprints"`
		Suppressions []sarifSuppression `json:"suppressions,omitempty"`
		Properties   map[string]any     `json:"properties,omitempty"`
	}
	sarifLocation struct {
		Physical sarifPhysical  `json:"physicalLocation"`
		Logical  []sarifLogical `json:"logicalLocations,omitempty"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   sarifRegion   `json:"region"`
	}
	sarifArtifact struct {
		URI  string `json:"uri"`
		Base string `json:"uriBaseId,omitempty"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn,omitempty"`
	}
	sarifLogical struct {
		Name string `json:"name,omitempty"`
		Full string `json:"fullyQualifiedName"`
		Kind string `json:"kind"`
	}
	sarifSuppression struct {
		Kind          string `json:"kind"`
		Status        string `json:"status"`
		Justification string `json:"justification"`
	}
)

const sarifSchema = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

// maxSARIF is how many results code scanning of GitHub accepts. It rejects a log with more.
const maxSARIF = 25_000

// SARIF writes a report as a log of SARIF 2.1.0. A rule of it is one part of a policy. Exempted
// results are suppressed, results that need a request are notApplicable, and kinds that cannot be
// read are notifications of an invocation that was not successful. Objects that are not known are notifications, too.
func SARIF(w io.Writer, r *Report, version string) error {
	run := newRun(version)
	for _, kind := range r.Kinds {
		if kind.Error != "" {
			run.Invocations[0].Successful = false
			run.notify("error", kind.String()+": "+kind.Error)
		}
	}
	if unread := r.Unread(); unread != "" {
		run.notify("warning", "left out: "+unread)
	}
	if missing := r.Missing(); missing != "" {
		run.notify("warning", missing)
	}
	if r.Nothing() {
		run.notify("warning", NothingAudited)
	}
	for _, one := range mostSerious(run, r.Results, func(a, b Result) int { return cmp.Compare(rank(a.Status), rank(b.Status)) }) {
		id := ruleID(&one)
		run.add(sarifResultOf(&one, id), func() sarifRule { return sarifRuleOf(id, &one, r.Abouts[one.Policy]) })
	}
	return run.encode(w)
}

// newRun returns a run of Usher without results.
func newRun(version string) *sarifRun {
	return &sarifRun{
		Tool:        sarifTool{Driver: sarifDriver{Name: "usher", Version: version, Rules: []sarifRule{}}},
		Invocations: []sarifInvocation{{Successful: true}},
		Results:     []sarifResult{},
	}
}

// notify adds what is no result.
func (r *sarifRun) notify(level, text string) {
	r.Invocations[0].Notifications = append(r.Invocations[0].Notifications, sarifNotification{level, sarifMessage(text)})
}

// mostSerious returns as many results as code scanning accepts, in their order if these are all, or else the
// most serious first.
func mostSerious[T any](run *sarifRun, results []T, compare func(a, b T) int) []T {
	left := len(results) - maxSARIF
	if left <= 0 {
		return results
	}
	run.notify("warning", cli.Count(left, "result is", "results are")+" left out, from the least serious: code scanning accepts "+strconv.Itoa(maxSARIF))
	return slices.SortedStableFunc(slices.Values(results), compare)[:maxSARIF]
}

// add adds a result, and its rule if that is the first one of it.
func (r *sarifRun) add(result sarifResult, rule func() sarifRule) {
	rules := &r.Tool.Driver.Rules
	at, ok := r.index[result.RuleID]
	if !ok {
		if r.index == nil {
			r.index = map[string]int{}
		}
		at = len(*rules)
		r.index[result.RuleID] = at
		*rules = append(*rules, rule())
	}
	result.RuleIndex = at
	r.Results = append(r.Results, result)
}

func (r *sarifRun) encode(w io.Writer) error {
	return cli.EncodeJSON(w, sarifLog{sarifSchema, "2.1.0", []sarifRun{*r}}, "  ")
}

// ruleID names the part of a policy that a result is of.
func ruleID(r *Result) string {
	if r.Policy == (usher.PolicyRef{}) {
		return "audit"
	}
	return printable.Line(strings.Join(slices.DeleteFunc([]string{r.Policy.Kind, r.Policy.Namespace, r.Policy.Name, cmp.Or(r.Validation, r.Rule)}, func(s string) bool { return s == "" }), "/"))
}

func sarifRuleOf(id string, r *Result, policy About) sarifRule {
	help := "Change the object so that it complies, or write an exemption with usher exempt."
	if r.Policy == (usher.PolicyRef{}) {
		help = "Usher could not judge these objects: the message says why."
	}
	description := headline(r, policy)
	about := sarifRule{
		ID:               id,
		ShortDescription: sarifText{description},
		FullDescription:  sarifText{description},
		Help:             sarifText{help},
		Configuration:    sarifLevel{level(r)},
		Properties:       map[string]any{},
	}
	if policy.Description != "" {
		about.FullDescription = sarifText{printable.Words(policy.Description)}
	}
	if links := slices.DeleteFunc(slices.Clone(policy.Links), func(link string) bool { return !isLink(link) }); len(links) > 0 {
		about.HelpURI = links[0]
		about.Help.Text += " See " + strings.Join(links, ", ") + "."
	}
	if r.Severity != "" {
		about.Properties["severity"] = printable.Line(string(r.Severity))
	}
	var tags []string
	if r.Category != "" {
		about.Properties["category"] = printable.Line(r.Category)
		tags = append(tags, printable.Line(r.Category))
	}
	if score := securitySeverity(r.Severity); score != "" {
		// Code scanning reads the score of rules with this tag.
		about.Properties["security-severity"] = score
		tags = append(tags, "security")
	}
	if len(tags) > 0 {
		about.Properties["tags"] = tags
	}
	return about
}

// headline is what code scanning lists: what a rule asks for, or its name; the ID of the rule has all of it.
func headline(r *Result, policy About) string {
	if text := firstSentence(cmp.Or(policy.Messages[cmp.Or(r.Validation, r.Rule)], policy.Description)); text != "" {
		return text
	}
	told := printable.Line(cmp.Or(r.Validation, r.Rule))
	if r.Validation == "" && (r.Status == result.Fail || r.Status == result.Warn) {
		if text := firstSentence(strings.TrimPrefix(r.Message, result.OfPods)); text != "" {
			return text
		}
	}
	return strings.TrimSpace(policyName(r.Policy) + " " + told)
}

// maxHeadline is how many characters of a headline GitHub shows.
const maxHeadline = 255

// firstSentence returns the first sentence of a text, on one line.
func firstSentence(text string) string {
	text = printable.Words(text)
	if sentence, _, more := strings.Cut(text, ". "); more {
		text = sentence + "."
	}
	return printable.CutRunes(text, maxHeadline)
}

// isLink reports whether a text is the URL of a page.
func isLink(text string) bool {
	parsed, err := url.Parse(text)
	return err == nil && (parsed.Scheme == "https" || parsed.Scheme == "http") && parsed.Host != "" && printable.Line(text) == text
}

func sarifResultOf(r *Result, id string) sarifResult {
	field := r.Field
	if unexempted(r) == result.Warn && len(r.Actions) == 0 {
		// It is the first of those that would change, and there is one result for all.
		field = ""
	}
	about := sarifResult{
		RuleID: id, Kind: "fail", Level: level(r), Message: sarifMessage(r.sentence()),
		Locations:    []sarifLocation{{Physical: physical(r), Logical: []sarifLogical{{printable.Line(r.Object.Name), title(r.Object), "resource"}}}},
		Fingerprints: map[string]string{"usherResult/v1": fingerprint(id, r.Rule, r.Object.APIVersion, r.Object.Kind, r.Object.Namespace, r.Object.Name, field, r.File)},
		Properties:   map[string]any{"status": r.Status},
	}
	if r.Field != "" {
		about.Properties["field"] = printable.Line(r.Field)
	}
	switch {
	case r.Exemption != nil:
		about.Suppressions = []sarifSuppression{{"external", "accepted", printable.Line(r.Exemption.String() + ": " + r.Exemption.Reason)}}
	case r.Status == result.Skip:
		about.Kind, about.Level = "notApplicable", "none"
	case r.Status == result.Pass:
		about.Kind, about.Level = "pass", "none"
	}
	return about
}

// unexempted is the status of a result, or the one that it would have without its exemption: code scanning knows a
// suppressed result by what it was.
func unexempted(r *Result) result.Status { return cmp.Or(r.WithoutExemption, r.Status) }

// level is the level of a result, or of what it would be without its exemption: what would be denied is an error, and so
// is a rule without a result; a warning is one, and what is only recorded is a note.
func level(r *Result) string {
	denied := len(r.Actions) == 0 || slices.Contains(r.Actions, usher.ActDeny) || strings.HasPrefix(r.Message, result.OfPods)
	switch status := unexempted(r); {
	case status == result.Warn, status == result.Fail && !denied && slices.Contains(r.Actions, usher.ActWarn):
		return "warning"
	case status == result.Fail && !denied:
		return "note"
	}
	return "error"
}

// securitySeverity is the score of a severity, in the middle of those that code scanning of GitHub calls the
// same; empty for what it has no word for.
func securitySeverity(s usher.Severity) string {
	switch s {
	case "critical":
		return "9.5"
	case "high":
		return "8.0"
	case "medium":
		return "5.5"
	case "low":
		return "2.0"
	}
	return ""
}

// physical is the place in a file. Viewers resolve relative names against the root of the sources, and
// code scanning of GitHub rejects a log with a result that has no place. An object that is in no file
// has that at which it would be written.
func physical(r *Result) sarifPhysical {
	name := r.File
	switch {
	case name == "" && r.Object.Name == "":
		name = "cluster"
	case name == "":
		name = path.Join("cluster", printable.Line(r.Object.Namespace), printable.Line(r.Object.Kind), strings.ReplaceAll(printable.Line(r.Object.Name), "/", "_")+".yaml")
	}
	return sarifPhysical{Artifact: artifact(name), Region: sarifRegion{StartLine: max(r.Line, 1)}}
}

// artifact is a file, or the standard input.
func artifact(file string) sarifArtifact {
	switch {
	case file == "-":
		file = "stdin.yaml"
	case filepath.IsAbs(file):
		return sarifArtifact{URI: (&url.URL{Scheme: "file", Path: filepath.ToSlash(file)}).String()}
	}
	return sarifArtifact{URI: relative(filepath.ToSlash(file)), Base: "%SRCROOT%"}
}

// relative returns the URI of a relative path.
func relative(name string) string { return (&url.URL{Path: name}).String() }

// fingerprint is the same as long as a result is about the same parts, such as the field of an object.
func fingerprint(parts ...string) string {
	hash := sha256.New()
	for _, part := range parts {
		_, _ = io.WriteString(hash, part+"\x00")
	}
	return hex.EncodeToString(hash.Sum(nil)[:16])
}

// placeholder is text that viewers would replace with an argument.
var placeholder = regexp.MustCompile(`\{(\d+)\}`)

// sarifMessage returns text so that viewers find no links and no placeholders in it.
func sarifMessage(text string) sarifText {
	text = printable.Line(text)
	if strings.Contains(text, "](") {
		text = strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`).Replace(text)
	}
	return sarifText{placeholder.ReplaceAllString(text, "{{$1}}")}
}
