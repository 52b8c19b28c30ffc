package library

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/internal/manifest"
)

// Summary returns the first sentence of the description.
func (p *Policy) Summary() string {
	text := strings.Join(strings.Fields(p.Spec.Description), " ")
	first, _, _ := strings.Cut(text, ". ")
	return strings.TrimSuffix(first, ".")
}

// An Example is a test case of a policy.
type Example struct {
	Name string
	// Says are the messages, without the name of the policy at their end. There are none if the
	// request is permitted.
	Says []string
}

// Examples returns the cases that the policy is for, in the order of their file.
func (p *Policy) Examples() ([]Example, error) {
	var examples []Example
	for _, document := range manifest.Split(p.Cases) {
		var c struct {
			Name   string `json:"name"`
			Expect struct {
				Warnings []string `json:"warnings"`
				Message  string   `json:"messageEquals"`
				NoMatch  bool     `json:"noMatch"`
			} `json:"expect"`
		}
		if err := yaml.Unmarshal(document.Text, &c); err != nil {
			return nil, fmt.Errorf("read cases of policy %s: %w", p.Name, err)
		}
		if c.Name == "" || c.Expect.NoMatch {
			continue
		}
		example := Example{Name: c.Name}
		if c.Expect.Message != "" {
			example.Says = append(example.Says, c.Expect.Message)
		}
		for _, warning := range c.Expect.Warnings {
			example.Says = append(example.Says, strings.TrimSuffix(warning, " (ClusterObjectPolicy "+p.Name+")"))
		}
		examples = append(examples, example)
	}
	return examples, nil
}
