package live

import (
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule"
)

// Known sets the policies that API servers enforce themselves, which are not in force here. A policy
// that is in force here as well gets a warning: requests are decided twice.
func (l *Live) Known(policies []api.Policy) {
	l.updating.Lock()
	defer l.updating.Unlock()
	l.elsewhere = policies
	if l.current.Load().status.Generation > 0 {
		l.update(l.sets)
	}
}

// countKnown adds to a status which policies are only known.
func (l *Live) countKnown(s *Status) {
	for _, p := range l.elsewhere {
		if s.Known == nil {
			s.Known = map[string]int{}
		}
		s.Known[compile.Ref(p.Object).Kind]++
	}
}

// twice returns the problems of versions that API servers enforce, too.
func (l *Live) twice(enforced []compile.Compiled) []rule.Problem {
	if len(l.elsewhere) == 0 {
		return nil
	}
	return compile.Twice(enforced, l.elsewhere)
}
