package delegated

import (
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Owner returns who shares what there is of something: a user, or the ServiceAccounts of a namespace,
// of which some users can create any number.
func Owner(who user.Info) string {
	if namespace, _, err := serviceaccount.SplitUsername(who.GetName()); err == nil {
		return serviceaccount.MakeNamespaceGroupName(namespace)
	}
	return who.GetName()
}

// slots counts the requests of each owner that are served.
type slots struct {
	most int

	mu    sync.Mutex
	taken map[string]int
}

// take takes a slot, and returns what gives it back. It never waits: who has many requests knows
// better which of them to end.
func (s *slots) take(owner string) (give func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken[owner] >= s.most {
		return nil, apierrors.NewTooManyRequests("too many requests of the same user are served: try again when others have ended", 1)
	}
	if s.taken == nil {
		s.taken = map[string]int{}
	}
	s.taken[owner]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.taken[owner]--; s.taken[owner] == 0 {
			delete(s.taken, owner)
		}
	}, nil
}
