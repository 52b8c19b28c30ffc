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
