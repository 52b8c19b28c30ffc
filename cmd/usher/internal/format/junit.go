package format

import (
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/printable"
)

// The JUnit format, as far as CI systems agree on it.
type (
	junitSuites struct {
		XMLName xml.Name     `xml:"testsuites"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name    string        `xml:"name,attr"`
		Class   string        `xml:"classname,attr"`
		File    string        `xml:"file,attr,omitempty"`
		Line    string        `xml:"line,attr,omitempty"`
		Failure *junitMessage `xml:"failure"`
		Error   *junitMessage `xml:"error"`
		Skipped *junitMessage `xml:"skipped"`
		Output  string        `xml:"system-out,omitempty"`
	}
	junitMessage struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
)

// JUnit writes a report for the viewers of CI systems: a suite for each policy, a case for each
// result, and one for all objects to which the policy has no objection. Warnings pass, with their
// message as output. A policy that is for no object, or whose rules cannot be judged, is skipped.
func JUnit(w io.Writer, r *Report) error {
	var suites junitSuites
	listed := map[usher.PolicyRef][]*Result{}
	for i := range r.Results {
		ref := r.Results[i].Policy
		listed[ref] = append(listed[ref], &r.Results[i])
	}
	for _, p := range r.Policies {
		suites.Suites = append(suites.Suites, junitSuiteOf(p, listed[p.PolicyRef]))
		delete(listed, p.PolicyRef)
	}
	if rest := listed[usher.PolicyRef{}]; len(rest) > 0 {
		suites.Suites = append(suites.Suites, junitSuiteOf(result.PolicySummary{}, rest))
	}
	for _, skipped := range []struct{ name, why string }{{"facts", r.Missing()}, {"left out", r.Unread()}} {
		if skipped.why != "" {
			suite := junitSuite{Name: "usher audit: " + skipped.name}
			suite.add(junitCase{Name: skipped.why, Class: suite.Name, Skipped: &junitMessage{Message: skipped.why}})
			suites.Suites = append(suites.Suites, suite)
		}
	}
	if r.Nothing() {
		suite := junitSuite{Name: "usher audit"}
		suite.add(junitCase{Name: NothingAudited, Class: suite.Name, Error: &junitMessage{Message: NothingAudited, Type: "error"}})
		suites.Suites = append(suites.Suites, suite)
	}
	encoded, err := xml.MarshalIndent(suites, "", "  ")
	if err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, encoded)
	return err
}

func junitSuiteOf(p result.PolicySummary, results []*Result) junitSuite {
	suite := junitSuite{Name: policyName(p.PolicyRef)}
	for _, r := range results {
		c := junitCase{Name: strings.TrimSpace(title(r.Object) + " " + printable.Line(r.Rule)), Class: suite.Name}
		if r.place() != "" {
			c.File = printable.Line(r.File)
			if r.Line > 0 {
				c.Line = strconv.Itoa(r.Line)
			}
		}
		text := printable.Line(r.sentence())
		message := &junitMessage{Message: text, Type: printable.Line(string(r.Severity)), Text: text}
		switch r.Status {
		case result.Fail:
			c.Failure = message
		case result.Error:
			c.Error = message
		case result.Skip:
			c.Skipped = &junitMessage{Message: text}
		case result.Warn, result.Pass:
			c.Output = "warning: " + text
		}
		suite.add(c)
	}
	switch {
	case p.Summary.Pass > 0:
		suite.add(junitCase{Name: fmt.Sprintf("%d without objection", p.Summary.Pass), Class: suite.Name})
	case len(results) == 0 && p.Summary.Skip > 0:
		text := fmt.Sprintf("%d not judged", p.Summary.Skip)
		suite.add(junitCase{Name: text, Class: suite.Name, Skipped: &junitMessage{Message: text}})
	case len(results) == 0:
		suite.add(junitCase{Name: "no object is of its kinds", Class: suite.Name, Skipped: &junitMessage{Message: "no object is of its kinds"}})
	}
	return suite
}

func (s *junitSuite) add(c junitCase) {
	s.Tests++
	switch {
	case c.Failure != nil:
		s.Failures++
	case c.Error != nil:
		s.Errors++
	case c.Skipped != nil:
		s.Skipped++
	}
	s.Cases = append(s.Cases, c)
}
