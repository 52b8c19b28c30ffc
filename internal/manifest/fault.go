package manifest

import (
	"regexp"
	"strconv"
	"strings"
)

var faultLine = regexp.MustCompile(`line (\d+): `)

// Fault returns the line that an error of a YAML parser names, 0 for none, and its reason. It reads
//
// `yaml: line 3: reason`, or `yaml: unmarshal errors:\n line 3: reason`.
func Fault(err error) (line int, reason string) {
	reason = strings.TrimPrefix(err.Error(), "yaml: ")
	m := faultLine.FindStringSubmatchIndex(reason)
	if m == nil {
		return 0, reason
	}
	line, _ = strconv.Atoi(reason[m[2]:m[3]])
	reason, _, _ = strings.Cut(reason[m[1]:], "\n")
	if strings.HasPrefix(reason, "did not find expected") {
		// The parser, unlike the scanner, counts from 0.
		line++
	}
	return line, reason
}

// unrendered finds what only Helm templates have, and not text that is meant for other templates.
var unrendered = regexp.MustCompile(`\{\{-?\s*([.$]|/\*|(block|define|else|end|if|include|range|template|toYaml|tpl|with)\b)`)

// Unrendered returns what to do about text that is not YAML because it is a Helm template, after a semicolon, or "".
func Unrendered(text []byte) string {
	if !unrendered.Match(text) {
		return ""
	}
	return "; this is a Helm template, render it first: helm template CHART -n NAMESPACE; commands read the output in place of the file if that is -"
}
