package try

import (
	"errors"
	"slices"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

// A chosen names the policies to exempt from; without any it is all.
type chosen []string

// check returns an error if a name is that of no policy.
func (c chosen) check(known []usher.PolicyRef) error {
	for _, name := range c {
		if unknown := rule.Unknown(name, known); unknown != "" {
			return errors.New("--policy: " + unknown)
		}
	}
	return nil
}

func (c chosen) has(ref usher.PolicyRef) bool {
	return len(c) == 0 || slices.ContainsFunc(c, func(name string) bool { return rule.Names(name, ref) })
}

// of returns a verdict as if other policies refused nothing.
func (c chosen) of(v verdict) verdict {
	var own []usher.Finding
	var others []string
	refused, message := false, ""
	for i := range v.Findings {
		f := &v.Findings[i]
		switch name := f.Policy.String(); {
		case c.has(f.Policy):
			own = append(own, *f)
			if refuses(f) && !refused {
				refused, message = true, f.Message
			}
		case refuses(f) && !slices.Contains(others, name):
			others = append(others, name)
		}
	}
	v.Findings = own
	switch {
	case len(others) == 0:
	case refused:
		v.Message = message
	default:
		v.Verdict, v.others = usher.Allow, others
	}
	return v
}

// refuses reports whether a finding is why a policy refuses a request.
func refuses(f *usher.Finding) bool {
	return !f.Written && f.Policy.Name != "" && (f.Outcome == usher.Rejected || f.Outcome == usher.Failed && !f.Ignored)
}
