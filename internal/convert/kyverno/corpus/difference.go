package corpus

import (
	"fmt"
	"os"
	"regexp"
	"slices"

	kyaml "sigs.k8s.io/yaml"
)

// A Difference is rows that a converted policy answers otherwise than Kyverno's engine, on purpose.
type Difference struct {
	// Rows is a regular expression on names of rows.
	Files []string `json:"files"`
	Rows  string   `json:"rows"`
	Why   string   `json:"why"`

	rows *regexp.Regexp
}

// Is tells whether a row of a file is one of them.
func (d Difference) Is(file, row string) bool {
	return slices.Contains(d.Files, file) && d.rows.MatchString(row)
}

// Differences reads a list of differences.
func Differences(name string) ([]Difference, error) {
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read differences: %w", err)
	}
	var all []Difference
	if err := kyaml.UnmarshalStrict(raw, &all); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	for i := range all {
		d := &all[i]
		if d.rows, err = regexp.Compile(d.Rows); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
	}
	return all, nil
}
