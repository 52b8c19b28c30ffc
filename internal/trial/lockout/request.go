package lockout

import (
	"bytes"
	_ "embed" // requests.txt
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
)

// recorded holds the requests as an API server sent them to a webhook, one per line.
//
//go:embed requests.txt
var recorded []byte

// A Request is a request without which a cluster cannot recover.
type Request struct {
	// Name is unique.
	Name string `json:"name"`
	// Group is what the request is for, such as network; What it is, and Why it matters, are
	// sentences without full stop.
	Group string `json:"group"`
	What  string `json:"what"`
	Why   string `json:"why"`
	// User, with Groups, sends it.
	User      string          `json:"user"`
	Groups    []string        `json:"groups"`
	Operation usher.Operation `json:"operation"`
	// Kind is that of the object, such as apps/v1/Deployment; Resource is the endpoint, such as
	// v1/pods/eviction.
	Kind      string `json:"kind"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Object    string `json:"objectName,omitempty"`
	// New and Old are the objects, and Options those of the operation, as JSON.
	New     []byte `json:"-"`
	Old     []byte `json:"-"`
	Options []byte `json:"-"`
}

// home is the namespace of Usher in the recorded requests.
const home = "usher-system"

// Requests returns the requests, those of Usher itself in its namespace; the empty namespace means
// usher-system.
func Requests(namespace string) ([]Request, error) {
	text := recorded
	if namespace != "" && namespace != home {
		text = bytes.ReplaceAll(text, []byte(home), []byte(namespace))
	}
	return parse(text)
}

// requestsIn returns the requests for a policy of a namespace: those in namespaces of teams are in its own.
func requestsIn(own, namespace string) ([]Request, error) {
	all, err := Requests(namespace)
	if err != nil || slices.ContainsFunc(all, func(r Request) bool { return r.Namespace == own && !slices.Contains(teams, own) }) {
		return all, err
	}
	name, err := json.Marshal(own)
	if err != nil {
		return nil, fmt.Errorf("make requests of lock-out: %w", err)
	}
	for i := range all {
		r := &all[i]
		if !slices.Contains(teams, r.Namespace) {
			continue
		}
		was := fmt.Appendf(nil, `"namespace":%q`, r.Namespace)
		is := append([]byte(`"namespace":`), name...)
		r.Namespace, r.New, r.Old = own, bytes.ReplaceAll(r.New, was, is), bytes.ReplaceAll(r.Old, was, is)
	}
	return all, nil
}

// teams are the namespaces of teams in the recorded requests.
var teams = []string{"shop", "leaving"}

func parse(text []byte) ([]Request, error) {
	var all []Request
	for line := range bytes.Lines(text) {
		var r Request
		// Most objects are never read: they are not part of the JSON that is.
		parts := bytes.Split(bytes.TrimSuffix(line, []byte("\n")), []byte("\t"))
		if len(parts) != 4 {
			return nil, fmt.Errorf("read requests of lock-out: line with %d parts", len(parts))
		}
		if err := json.Unmarshal(parts[0], &r); err != nil {
			return nil, fmt.Errorf("read requests of lock-out: %w", err)
		}
		r.New, r.Old, r.Options = parts[1], parts[2], parts[3]
		all = append(all, r)
	}
	return all, nil
}

// Line returns the request as it is recorded: the JSON of it, the objects and the options, with tabs
// between them, which JSON does not contain.
func (r *Request) Line() ([]byte, error) {
	head, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", r.Name, err)
	}
	return append(bytes.Join([][]byte{head, r.New, r.Old, r.Options}, []byte("\t")), '\n'), nil
}

// Admission returns the request of one phase as doors make it.
func (r *Request) Admission(phase usher.Phase) *usher.Request {
	made := &usher.Request{
		UID: r.Name, Phase: phase, Operation: r.Operation, Name: r.Object, Namespace: r.Namespace,
		User:   usher.User{Name: r.User, Groups: r.Groups},
		Object: usher.RawObject(r.New), OldObject: usher.RawObject(r.Old), Options: usher.RawObject(r.Options),
	}
	at, kind := r.Kind[:strings.LastIndexByte(r.Kind, '/')], r.Kind[strings.LastIndexByte(r.Kind, '/')+1:]
	made.Kind = schema.FromAPIVersionAndKind(at, kind)
	made.Resource, made.Subresource = endpoint(r.Resource)
	return made
}

// endpoint parses a resource such as apps/v1/deployments/scale or v1/pods/eviction.
func endpoint(text string) (schema.GroupVersionResource, string) {
	words := strings.Split(text, "/")
	gvr := schema.GroupVersionResource{}
	if !isVersion(words[0]) {
		gvr.Group, words = words[0], words[1:]
	}
	gvr.Version, gvr.Resource = words[0], words[1]
	return gvr, strings.Join(words[2:], "/")
}

// isVersion reports whether a word is the version of the group without a name.
func isVersion(word string) bool { return word == "v1" }
