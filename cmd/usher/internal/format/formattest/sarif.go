// Package formattest checks the output of commands by the rules of those who read it.
package formattest

import (
	"bytes"
	_ "embed" // It embeds the schema.
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schema is that which OASIS publishes at the address in its id, on one line.
//
//go:embed sarif-2.1.0.schema.json
var schema []byte

// The limits of code scanning of GitHub.
const (
	maxResults = 25_000
	maxRules   = 25_000
	maxTags    = 20
)

// sarifLog is what of a log there are rules for beside the schema.
type sarifLog struct {
	Runs []struct {
		Tool struct {
			Driver struct{ Rules []sarifRule }
		}
		Results []sarifResult
	}
}

type sarifRule struct {
	ID                                      string
	ShortDescription, FullDescription, Help struct{ Text string }
	Properties                              struct{ Tags []string }
}

type sarifResult struct {
	RuleID      string
	RuleIndex   int
	Kind, Level string
	Message     struct{ Text string }
	Locations   []struct {
		PhysicalLocation struct {
			ArtifactLocation struct{ URI string }
			Region           struct{ StartLine int }
		}
	}
	PartialFingerprints map[string]string
}

var compiled = sync.OnceValues(func() (*jsonschema.Schema, error) {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, err
	}
	const name = "sarif-2.1.0.schema.json"
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(name, value); err != nil {
		return nil, err
	}
	return compiler.Compile(name)
})

// SARIF returns what is wrong with a log: by the schema of SARIF 2.1.0, and by the rules of code
// scanning of GitHub, which rejects a whole log for one result without a place.
func SARIF(output []byte) error {
	checker, err := compiled()
	if err != nil {
		return fmt.Errorf("compile schema: %w", err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(output))
	if err != nil {
		return fmt.Errorf("decode SARIF: %w", err)
	}
	if err := checker.Validate(value); err != nil {
		return err
	}
	var log sarifLog
	if err := json.Unmarshal(output, &log); err != nil {
		return fmt.Errorf("decode SARIF: %w", err)
	}
	var errs []error
	for _, run := range log.Runs {
		rules := run.Tool.Driver.Rules
		if len(run.Results) > maxResults || len(rules) > maxRules {
			errs = append(errs, fmt.Errorf("%d results of %d rules", len(run.Results), len(rules)))
		}
		errs = append(errs, checkRules(rules))
		for i := range run.Results {
			errs = append(errs, run.Results[i].check(rules))
		}
	}
	return errors.Join(errs...)
}

func checkRules(rules []sarifRule) error {
	var errs []error
	seen := map[string]bool{}
	for i := range rules {
		r := &rules[i]
		if seen[r.ID] {
			errs = append(errs, fmt.Errorf("two rules have the ID %s", r.ID))
		}
		seen[r.ID] = true
		if r.ID == "" || r.ShortDescription.Text == "" || r.FullDescription.Text == "" || r.Help.Text == "" {
			errs = append(errs, fmt.Errorf("rule %d, %q, has no ID, description or help", i, r.ID))
		}
		if len(r.Properties.Tags) > maxTags {
			errs = append(errs, fmt.Errorf("rule %s has %d tags", r.ID, len(r.Properties.Tags)))
		}
	}
	return errors.Join(errs...)
}

func (r *sarifResult) check(rules []sarifRule) error {
	var errs []error
	wrong := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("result %q of %s: %s", r.Message.Text, r.RuleID, fmt.Sprintf(format, args...)))
	}
	if r.RuleIndex >= len(rules) || rules[r.RuleIndex].ID != r.RuleID {
		wrong("the index %d is of another rule", r.RuleIndex)
	}
	if (r.Kind == "fail") == (r.Level == "none") {
		wrong("kind %s has level %s", r.Kind, r.Level)
	}
	if r.Message.Text == "" {
		wrong("no message")
	}
	if len(r.PartialFingerprints) == 0 {
		wrong("no fingerprint")
	}
	if len(r.Locations) == 0 {
		wrong("expected at least one location")
	}
	for _, at := range r.Locations {
		uri, err := url.Parse(at.PhysicalLocation.ArtifactLocation.URI)
		switch {
		case err != nil:
			wrong("%v", err)
		case uri.Path == "":
			wrong("expected an artifact location")
		case uri.Scheme != "" && uri.Scheme != "file":
			wrong("the location %s is not in a file", uri)
		case at.PhysicalLocation.Region.StartLine < 1:
			wrong("the region in %s has no first line", uri)
		}
	}
	return errors.Join(errs...)
}
