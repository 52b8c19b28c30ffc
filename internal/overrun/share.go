package overrun

import "github.com/usher-dev/usher/internal/rule/allowance"

// A Share is what the policies of a namespace may take for a request together, and how they take turns with
// those of others. That of the cluster's policies is zero.
type Share struct {
	Allowance *allowance.Allowance
	Turn      *Turn
}

// Shares are those of one request. The zero value works.
type Shares struct{ of map[string]Share }

// Of returns the share of a namespace's policies, for evaluations that w runs.
func (s *Shares) Of(w *Watch, namespace string) Share {
	if namespace == "" {
		return Share{}
	}
	share, ok := s.of[namespace]
	if !ok {
		if s.of == nil {
			s.of = map[string]Share{}
		}
		share.Turn = w.Turn(namespace)
		share.Allowance = allowance.Namespace(share.Turn)
		s.of[namespace] = share
	}
	return share
}
