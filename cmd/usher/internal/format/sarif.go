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

// The part of SARIF 2.1.0 that an audit uses.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool        sarifTool         `json:"tool"`
		Invocations []sarifInvocation `json:"invocations"`
		Results     []sarifResult     `json:"results"`
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
		Logical  []sarifLogical `json:"logicalLocations"`
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
		StartLine int `json:"startLine"`
	}
	sarifLogical struct {
		Name string `json:"name,omitempty"`
		Full string `json:"fullyQualifiedName"`
		Kind string `json:"kind"`
	}
	sarifSuppression struct {
		Kind          string `json:"kind"`
		Justification string `json:"justification"`
	}
)

const sarifSchema = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

// maxSARIF is how many results code scanning of GitHub accepts. It rejects a log with more.
const maxSARIF = 25_000

// SARIF writes a report as a log of SARIF 2.1.0. A rule of it is one part of a policy. Exempted
// results are suppressed, results that need a request are notApplicable, and kinds that cannot be
// read are notifications of an invocation that was not successful.
func SARIF(w io.Writer, r *Report, version string) error {
	run := sarifRun{
		Tool:        sarifTool{Driver: sarifDriver{Name: "usher", Version: version, Rules: []sarifRule{}}},
		Invocations: []sarifInvocation{{Successful: true}},
		Results:     make([]sarifResult, 0, len(r.Results)),
	}
	for _, kind := range r.Kinds {
		if kind.Error != "" {
			run.Invocations[0].Successful = false
			run.Invocations[0].Notifications = append(run.Invocations[0].Notifications, sarifNotification{"error", sarifMessage(kind.String() + ": " + kind.Error)})
		}
	}
	if r.Nothing() {
		run.Invocations[0].Notifications = append(run.Invocations[0].Notifications, sarifNotification{"warning", sarifText{NothingAudited}})
	}
	results := r.Results
	if left := len(results) - maxSARIF; left > 0 {
		results = slices.SortedStableFunc(slices.Values(results), func(a, b Result) int { return cmp.Compare(rank(a.Status), rank(b.Status)) })[:maxSARIF]
		text := cli.Count(left, "result is", "results are") + " left out, from the least serious: code scanning accepts " + strconv.Itoa(maxSARIF)
		run.Invocations[0].Notifications = append(run.Invocations[0].Notifications, sarifNotification{"warning", sarifText{text}})
	}
	index := map[string]int{}
	for i := range results {
		one := &results[i]
		id := ruleID(one)
		at, ok := index[id]
		if !ok {
			at = len(run.Tool.Driver.Rules)
			index[id] = at
			run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRuleOf(id, one))
		}
		run.Results = append(run.Results, sarifResultOf(one, id, at))
	}
	return cli.EncodeJSON(w, sarifLog{sarifSchema, "2.1.0", []sarifRun{run}}, "  ")
}

// ruleID names the part of a policy that a result is of.
func ruleID(r *Result) string {
	if r.Policy == (usher.PolicyRef{}) {
		return "audit"
	}
	return printable.Line(strings.Join(slices.DeleteFunc([]string{r.Policy.Kind, r.Policy.Namespace, r.Policy.Name, cmp.Or(r.Validation, r.Rule)}, func(s string) bool { return s == "" }), "/"))
}

func sarifRuleOf(id string, r *Result) sarifRule {
	help := "Change the object so that it complies, or write an exemption with usher exempt."
	if r.Policy == (usher.PolicyRef{}) {
		help = "Usher could not judge these objects: the message says why."
	}
	description := strings.TrimSpace(policyName(r.Policy) + " " + printable.Line(r.Rule))
	about := sarifRule{
		ID:               id,
		ShortDescription: sarifText{description},
		FullDescription:  sarifText{description},
		Help:             sarifText{help},
		Configuration:    sarifLevel{severityLevel(r.Severity)},
		Properties:       map[string]any{},
	}
	if r.Severity != "" {
		about.Properties["severity"] = printable.Line(string(r.Severity))
	}
	if r.Category != "" {
		about.Properties["category"] = printable.Line(r.Category)
		about.Properties["tags"] = []string{printable.Line(r.Category)}
	}
	return about
}

func sarifResultOf(r *Result, id string, index int) sarifResult {
	about := sarifResult{
		RuleID: id, RuleIndex: index, Kind: "fail", Level: level(r), Message: sarifMessage(r.sentence()),
		Locations:    []sarifLocation{{Physical: physical(r), Logical: []sarifLogical{{printable.Line(r.Object.Name), title(r.Object), "resource"}}}},
		Fingerprints: map[string]string{"usherResult/v1": fingerprint(r, id)},
		Properties:   map[string]any{"status": r.Status},
	}
	if r.Field != "" {
		about.Properties["field"] = printable.Line(r.Field)
	}
	switch {
	case r.Exemption != nil:
		about.Suppressions = []sarifSuppression{{"external", printable.Line(r.Exemption.String() + ": " + r.Exemption.Reason)}}
	case r.Status == result.Skip:
		about.Kind, about.Level = "notApplicable", "none"
	case r.Status == result.Pass:
		about.Kind, about.Level = "pass", "none"
	}
	return about
}

// level is the level of a result: that of its severity, but what would not be denied is no error.
func level(r *Result) string {
	switch by := severityLevel(r.Severity); {
	case r.Status == result.Error:
		return "error"
	case r.Status == result.Warn && by == "error":
		return "warning"
	default:
		return by
	}
}

// severityLevel is the level of a severity; a policy that gives none is as serious as can be.
func severityLevel(s usher.Severity) string {
	switch s {
	case "medium":
		return "warning"
	case "low", "info":
		return "note"
	}
	return "error"
}

// physical is the place in a file. Viewers resolve relative names against the root of the sources, and
// code scanning of GitHub rejects a log with a result that has no place. An object that is in no file
// has that at which it would be written.
func physical(r *Result) sarifPhysical {
	at := sarifArtifact{Base: "%SRCROOT%"}
	switch {
	case r.File == "" && r.Object.Name == "":
		at.URI = "cluster"
	case r.File == "":
		at.URI = relative(path.Join("cluster", printable.Line(r.Object.Namespace), printable.Line(r.Object.Kind), strings.ReplaceAll(printable.Line(r.Object.Name), "/", "_")+".yaml"))
	case r.File == "-":
		at.URI = "stdin.yaml"
	case filepath.IsAbs(r.File):
		at = sarifArtifact{URI: (&url.URL{Scheme: "file", Path: filepath.ToSlash(r.File)}).String()}
	default:
		at.URI = relative(filepath.ToSlash(r.File))
	}
	return sarifPhysical{Artifact: at, Region: sarifRegion{max(r.Line, 1)}}
}

// relative returns the URI of a relative path.
func relative(name string) string { return (&url.URL{Path: name}).String() }

// fingerprint is the same as long as a result is about the same field of the same object.
func fingerprint(r *Result, id string) string {
	hash := sha256.New()
	for _, part := range []string{id, r.Rule, r.Object.APIVersion, r.Object.Kind, r.Object.Namespace, r.Object.Name, r.Field, r.File} {
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
