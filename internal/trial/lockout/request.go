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
	for i := range all {
		if !slices.Contains(teams, all[i].Namespace) {
			continue
		}
		if all[i], err = all[i].renamed(all[i].Namespace, own); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// installed returns requests with those in a namespace of add-ons, or by a ServiceAccount of it, for each of the namespaces
// in its place, if there are any.
func installed(all []Request, namespaces []string) ([]Request, error) {
	if len(namespaces) == 0 {
		return all, nil
	}
	var moved []Request
	for i := range all {
		at := slices.IndexFunc(addons, func(name string) bool {
			return all[i].Namespace == name || strings.Contains(all[i].User, ":"+name+":")
		})
		if at < 0 {
			moved = append(moved, all[i])
			continue
		}
		for _, namespace := range namespaces {
			one, err := all[i].renamed(addons[at], namespace)
			if err != nil {
				return nil, err
			}
			moved = append(moved, one)
		}
	}
	return moved, nil
}

// renamed returns the request with another name of a namespace, and of its ServiceAccounts.
func (r Request) renamed(from, to string) (Request, error) {
	name, err := json.Marshal(to)
	if err != nil {
		return r, fmt.Errorf("make requests of lock-out: %w", err)
	}
	was := fmt.Appendf(nil, `"namespace":%q`, from)
	is := append([]byte(`"namespace":`), name...)
	r.New, r.Old = bytes.ReplaceAll(r.New, was, is), bytes.ReplaceAll(r.Old, was, is)
	account := func(text string) string {
		return strings.TrimSuffix(strings.Replace(text+":", ":"+from+":", ":"+to+":", 1), ":")
	}
	if r.Namespace == from {
		r.Namespace = to
	}
	r.User = account(r.User)
	groups := make([]string, len(r.Groups))
	for i := range groups {
		groups[i] = account(r.Groups[i])
	}
	r.Groups = groups
	return r, nil
}

// teams and addons are the namespaces of teams, and of add-ons of the cluster, in the recorded requests.
var (
	teams  = []string{"shop", "leaving"}
	addons = []string{"pod-network", "storage-drivers", "cluster-dns", "certificates"}
)

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
