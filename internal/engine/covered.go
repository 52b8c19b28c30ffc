package engine

import (
	"slices"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

// An application is an exemption with the parts of the rule from which it exempts the request.
type application struct {
	*rule.Exemption

	covered []usher.Check
}

// applied returns the exemptions from parts of the rule that made a difference: those that were used, and those that cover
// whatever it has said. Parts that are left are not covered.
func (j *judging) applied(partial, used []*rule.Exempting, left []usher.Check) []application {
	covered := slices.DeleteFunc(j.parts(), func(c usher.Check) bool {
		return slices.ContainsFunc(left, func(other usher.Check) bool { return other.Name == c.Name && other.Field == c.Field })
	})
	var all []application
	for _, x := range partial {
		covers := func(c usher.Check) bool { return len(x.Validations) == 0 || x.Validations.Covers(&c) }
		if len(x.Validations) == 0 || slices.Contains(used, x) || len(x.Images) == 0 && slices.ContainsFunc(j.said.checks, covers) {
			own, rest := split(covered, covers)
			all, covered = append(all, application{x.Exemption, own}), rest
		}
	}
	return all
}

// parts returns the parts of the rule that had something to say.
func (j *judging) parts() []usher.Check {
	switch {
	case len(j.said.checks) > 0:
		return slices.Clone(j.said.checks)
	case j.failed != nil:
		return []usher.Check{{Name: j.rule.Name, Message: j.failed.Error(), Failed: true}}
	case j.said.rejected:
		return []usher.Check{{Name: j.rule.Name, Message: j.said.message, Actions: []usher.Action{usher.ActDeny}}}
	}
	return nil
}

// split returns the checks that are, and those that are not.
func split(checks []usher.Check, are func(usher.Check) bool) (is, not []usher.Check) {
	for _, c := range checks {
		if are(c) {
			is = append(is, c)
		} else {
			not = append(not, c)
		}
	}
	return is, not
}
