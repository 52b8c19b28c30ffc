package rule

import (
	"k8s.io/apimachinery/pkg/labels"

	usher "github.com/usher-dev/usher"
)

// A Target is what a [Match] reads: the operation and the object of a request.
type Target struct {
	Operation  usher.Operation
	APIVersion string
	Kind       string
	Namespace  string
	Name       string
	Object     map[string]any

	labels objectLabels
	// request is nil if the target was made without one; sent says to which rules it was sent.
	request *usher.Request
	sent    sent
}

// A sent says for which rules without Resources an API server would send a request to the
// entry at which it is asked.
type sent byte

const (
	sentToAll sent = iota
	// sentToKinds: for those that name the kind of the object.
	sentToKinds
	// sentToResources: for none of them. The request is there for rules that have Resources.
	sentToResources
)

// sentTo finds out for which rules a request was sent to an entry. A request that names no
// entry is for all of them.
func sentTo(r *usher.Request) sent {
	switch {
	case r.Subresource == "" || r.Entry != string(r.Phase) || r.Operation == usher.Connect:
		return sentToAll
	case writesBeside(r):
		return sentToResources
	case wholeObject(r):
		return sentToAll
	case ownKind(r.Subresource):
		return sentToKinds
	}
	return sentToResources
}

// leftOut returns why s is not for a rule without Resources, which names kinds or not.
func (s *Target) leftOut(namesKinds bool) string {
	if s.sent == sentToResources || s.sent == sentToKinds && !namesKinds {
		return "the policy is not for this subresource"
	}
	return ""
}

// TargetPaths returns the paths that [TargetOf] reads.
func TargetPaths() *usher.Paths {
	paths := &usher.Paths{}
	paths.Add("apiVersion")
	paths.Add("kind")
	paths.Add("metadata", "name")
	paths.Add("metadata", "namespace")
	paths.Add("metadata", "labels")
	return paths
}

// TargetOf returns the target of a request whose object, as mutated so far, is object. Name and
// namespace are those of the object; for an object without metadata, such as the options of a
// CONNECT, those of the request.
func TargetOf(r *usher.Request, object map[string]any) Target {
	s := Target{Operation: r.Operation, Object: object, request: r, sent: sentTo(r)}
	s.APIVersion, _ = object["apiVersion"].(string)
	s.Kind, _ = object["kind"].(string)
	metadata, ok := object["metadata"].(map[string]any)
	if !ok {
		s.Name, s.Namespace = r.Name, r.Namespace
		return s
	}
	s.Name, _ = metadata["name"].(string)
	s.Namespace, _ = metadata["namespace"].(string)
	s.labels, _ = metadata["labels"].(map[string]any)
	return s
}

// Request returns the request, or nil if the target was made without one.
func (s *Target) Request() *usher.Request { return s.request }

// LabelsOf returns the labels of an object. It is false if the object has no metadata.
func LabelsOf(object map[string]any) (labels.Labels, bool) {
	metadata, ok := object["metadata"].(map[string]any)
	all, _ := metadata["labels"].(map[string]any)
	return objectLabels(all), ok
}

// Labels returns the object's labels.
func (s *Target) Labels() labels.Labels { return s.labels }

// EachLabel yields the object's labels, in no order, until yield returns false.
func (s *Target) EachLabel(yield func(key, value string) bool) {
	for key := range s.labels {
		if value, ok := s.labels.Lookup(key); ok && !yield(key, value) {
			return
		}
	}
}

// LabelCount returns how many labels the object has at most.
func (s *Target) LabelCount() int { return len(s.labels) }

// objectLabels reads labels from a JSON tree without copying them. It ignores values that are not
// strings.
type objectLabels map[string]any

func (l objectLabels) Lookup(key string) (string, bool) {
	value, ok := l[key].(string)
	return value, ok
}

func (l objectLabels) Has(key string) bool {
	_, ok := l.Lookup(key)
	return ok
}

func (l objectLabels) Get(key string) string {
	value, _ := l.Lookup(key)
	return value
}
