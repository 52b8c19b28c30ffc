package rule

import (
	"cmp"
	"fmt"
	"slices"

	usher "github.com/usher-dev/usher"
)

// A Severity tells what a [Problem] does to its policy.
type Severity string

const (
	// Error: the policy cannot be enforced as written.
	Error Severity = "error"
	// Mistake: the policy cannot do what it says, whatever the requests. It is refused when it
	// is written; one that is stored already is enforced as it is.
	Mistake Severity = "mistake"
	// Warning: the policy is enforced, but does not do what its author seems to expect.
	Warning Severity = "warning"
)

// A Problem is what is wrong with a policy, for its author.
type Problem struct {
	Policy   usher.PolicyRef `json:"policy"`
	Severity Severity        `json:"severity"`
	// Field is the path of the field, such as spec.overrideRules[0].overriders.cue.
	Field string `json:"field,omitempty"`
	// At is the place in the text of the field, such as an expression.
	At Place `json:"at,omitzero"`
	// What is wrong, and what to Do about it: a sentence each, without full stop.
	What string `json:"what"`
	Do   string `json:"do,omitempty"`
	// File, Line and Column tell where, if the policy came from a file. Line and Column count from
	// 1; Column is known only of a place in a text.
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	// Pending says that the policy could not be checked now: a later try may tell otherwise.
	Pending bool `json:"pending,omitempty"`
	// Stopped says that compiling the policy was stopped; it is empty otherwise.
	Stopped Stopped `json:"stopped,omitzero"`
}

// Stopped says why compiling a policy was stopped, so that this is not tried again before the policy
// or Usher changes.
type Stopped struct {
	// Reason is that of the condition Compiled: CompileTimeout, CompileMemory or CompileCrash.
	Reason string `json:"reason"`
	// Spec identifies what was compiled, and by which version of Usher.
	Spec string `json:"spec"`
}

// String is the problem in one line; what concerns no policy, such as a file that cannot
// be read, names none:
//
//	a.yaml:12:9: error: ClusterOverridePolicy x: spec.overrideRules[0].overriders.cue: what is wrong; what to do
func (p Problem) String() string {
	s := string(p.Severity) + ": "
	if p.Policy != (usher.PolicyRef{}) {
		s += p.Policy.String() + ": "
	}
	what := p.Text()
	switch {
	case p.File != "" && p.Line > 0 && p.Column > 0:
		s, what = fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, s), p.What
	case p.File != "" && p.Line > 0:
		s = fmt.Sprintf("%s:%d: %s", p.File, p.Line, s)
	case p.File != "":
		s = p.File + ": " + s
	}
	if p.Field != "" {
		s += p.Field + ": "
	}
	s += what
	if p.Do != "" {
		s += "; " + p.Do
	}
	return s
}

// Text is What with the place in the text of the field, for readers who do not see the file.
func (p Problem) Text() string {
	if p.At.Line == 0 {
		return p.What
	}
	return fmt.Sprintf("%s (line %d, column %d)", p.What, p.At.Line, p.At.Column)
}

// SortProblems orders problems by file, line, column, policy, field and text.
func SortProblems(problems []Problem) {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(
			cmp.Compare(a.File, b.File),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Policy.String(), b.Policy.String()),
			cmp.Compare(a.Field, b.Field),
			cmp.Compare(a.At.Line, b.At.Line),
			cmp.Compare(a.At.Column, b.At.Column),
			cmp.Compare(a.What, b.What),
		)
	})
}

// Errors returns the problems that keep a policy from being enforced.
func Errors(problems []Problem) []Problem {
	var errs []Problem
	for _, p := range problems {
		if p.Severity == Error {
			errs = append(errs, p)
		}
	}
	return errs
}

// Written returns problems as they count for a policy that is being written, for which a
// [Mistake] is an Error. The result is never nil.
func Written(problems []Problem) []Problem {
	written := append([]Problem{}, problems...)
	for i := range written {
		if written[i].Severity == Mistake {
			written[i].Severity = Error
		}
	}
	return written
}
