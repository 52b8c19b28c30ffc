package live

import (
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
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
func (s *Status) countKnown(elsewhere []api.Policy) {
	for _, p := range elsewhere {
		if s.Known == nil {
			s.Known = map[string]int{}
		}
		s.Known[compile.Ref(p.Object).Kind]++
	}
}
