package try

import (
	"context"
	"slices"
	"sync"

	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/object"
)

// A store finds objects among those of --facts, and remembers which ones are missing. With a nil
// store, none are missing.
type store struct {
	objects *object.Store

	mu      sync.Mutex
	missing []string
}

// Resolve implements [fact.Resolver].
func (s *store) Resolve(ctx context.Context, ref fact.Ref) (any, error) {
	found, err := s.objects.Resolve(ctx, ref)
	if found == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if name := ref.String(); !slices.Contains(s.missing, name) {
			s.missing = append(s.missing, name)
		}
	}
	return found, err
}

// taken returns the objects that were missing since the last call.
func (s *store) taken() []string {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	missing := s.missing
	s.missing = nil
	return missing
}
