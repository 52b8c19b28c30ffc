package auditlog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/impact"
	"github.com/usher-dev/usher/internal/simulate/authz"
)

// What a log does not have.
const (
	noObject    = "the log does not have the object: set the level RequestResponse"
	noOld       = "the log does not have the object as it was before"
	noDeleted   = "the log does not have the object that was deleted"
	noOptions   = "the log does not have the options of the connection"
	noDefaults  = "the log has the object as it was sent, without the fields that API servers fill in"
	truncated   = "the log has the object only in part: raise --audit-log-truncate-max-event-size"
	manyDeleted = "the log does not name the objects that were deleted together"
)

// An event is an event of audit.k8s.io/v1.
type event struct {
	Kind            string            `json:"kind"`
	APIVersion      string            `json:"apiVersion"`
	AuditID         string            `json:"auditID"`
	Stage           string            `json:"stage"`
	RequestURI      string            `json:"requestURI"`
	Verb            string            `json:"verb"`
	User            user              `json:"user"`
	Impersonated    *user             `json:"impersonatedUser"`
	Response        *metav1.Status    `json:"responseStatus"`
	RequestObject   json.RawMessage   `json:"requestObject"`
	ResponseObject  json.RawMessage   `json:"responseObject"`
	Annotations     map[string]string `json:"annotations"`
	ObjectReference *reference        `json:"objectRef"`
	Items           json.RawMessage   `json:"items"`
}

type user struct {
	Username string              `json:"username"`
	UID      string              `json:"uid"`
	Groups   []string            `json:"groups"`
	Extra    map[string][]string `json:"extra"`
}

// A reference names what a request is for; of a creation it has the name only afterwards.
type reference struct {
	Name string `json:"name"`
}

// A head is what objects have in common.
type head struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name            string `json:"name"`
		GenerateName    string `json:"generateName"`
		Namespace       string `json:"namespace"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
}

const group = "audit.k8s.io/"

// decode calls use for the events of a line, one or those of a list, one after the other: a list may be long. It
// reports whether the line has events.
func decode(line []byte, use func(*event) error) (bool, error) {
	var one event
	readable := json.Unmarshal(line, &one) == nil && strings.HasPrefix(one.APIVersion, group)
	switch {
	case readable && one.Kind == "Event":
		return true, use(&one)
	case !readable || one.Kind != "EventList":
		return false, nil
	}
	list := json.NewDecoder(bytes.NewReader(one.Items))
	start, err := list.Token()
	for err == nil && start == json.Delim('[') && list.More() {
		var e event
		if err = list.Decode(&e); err != nil {
			break
		}
		if used := use(&e); used != nil {
			return true, used
		}
	}
	// The rest of a list with something else in it is left out, and counted.
	return err == nil && start == json.Delim('['), nil
}

// entry returns the request of an event, and why it is none, or none for admission.
func (l *Log) entry(e *event, at string) (Entry, string) {
	if e.Stage != "ResponseComplete" || e.Response == nil {
		return Entry{}, NotComplete
	}
	who := e.User
	if e.Impersonated != nil {
		who = *e.Impersonated
	}
	if who.Username == "" {
		return Entry{}, NotAuthentic
	}
	line, err := authz.ParseLine(method(e.Verb), e.RequestURI)
	if err != nil {
		return Entry{}, NotAnEvent
	}
	asker := usher.User{Name: who.Username, UID: who.UID, Groups: who.Groups, Extra: who.Extra}
	question := &impact.Question{Request: line.Request(asker), Others: others(e, asker)}
	entry := Entry{Subject: &impact.Subject{Question: question, From: at}}
	operation := operationOf(&line, e)
	outcome := outcomeOf(e)
	if operation == "" || outcome == "" {
		return entry, NotAdmitted
	}
	entry.Denied = outcome == denied
	entry.Subject = l.write(e, &line, operation, entry.Denied)
	entry.Subject.Question, entry.Subject.From = question, at
	entry.Subject.Request.User, entry.Subject.Request.UID = asker, e.AuditID
	return entry, ""
}

// others returns what other authorizers than Usher said, NoOpinion if the log does not tell. The reason of a webhook is
// text of policies: one of RBAC ends with a quote, one of Usher with a parenthesis. Authorizers that allow without a
// reason are asked before webhooks.
func others(e *event, asker usher.User) usher.Verdict {
	reason := e.Annotations["authorization.k8s.io/reason"]
	byRBAC := strings.HasPrefix(reason, "RBAC: allowed by ") && strings.HasSuffix(reason, `"`)
	switch decision := e.Annotations["authorization.k8s.io/decision"]; {
	case slices.Contains(asker.Groups, "system:masters"), decision == "allow" && (reason == "" || byRBAC):
		return usher.Allow
	case decision == "forbid" && reason == "":
		return usher.Deny
	}
	return usher.NoOpinion
}

// method returns an HTTP method with the verb of an event.
func method(verb string) string {
	switch verb {
	case "create":
		return http.MethodPost
	case "update":
		return http.MethodPut
	case "deletecollection":
		return http.MethodDelete
	case "list", "watch":
		return http.MethodGet
	}
	return strings.ToUpper(verb)
}

// operationOf returns the operation that admission sees, empty for requests that it does not see.
func operationOf(line *authz.Line, e *event) usher.Operation {
	if line.NonResource {
		return ""
	}
	if connects(line) {
		return usher.Connect
	}
	switch line.Verb {
	case "create":
		return usher.Create
	case "update":
		return usher.Update
	case "patch":
		if e.Response.Code == http.StatusCreated {
			// Server-side apply.
			return usher.Create
		}
		return usher.Update
	case "delete", "deletecollection":
		return usher.Delete
	}
	return ""
}

// connects reports whether API servers connect to something for a request.
func connects(line *authz.Line) bool {
	if line.Group != "" {
		return false
	}
	switch line.Resource + "/" + line.Subresource {
	case "pods/exec", "pods/attach", "pods/portforward", "pods/proxy", "services/proxy", "nodes/proxy":
		return true
	}
	return false
}

// The outcomes of a request that reached admission.
const (
	admitted = "admitted"
	denied   = "denied"
)

// outcomeOf returns how admission ended for a request; empty if the request ended before.
func outcomeOf(e *event) string {
	code := e.Response.Code
	switch {
	case code >= 200 && code < 300 || code == http.StatusSwitchingProtocols:
		return admitted
	case code < 400:
		return ""
	}
	for _, said := range []string{"admission webhook ", "ValidatingAdmissionPolicy ", "MutatingAdmissionPolicy "} {
		if strings.HasPrefix(e.Response.Message, said) || strings.Contains(e.Response.Message, ": "+said) {
			return denied
		}
	}
	return ""
}

// write returns the request that admission sees, and remembers what came out.
func (l *Log) write(e *event, line *authz.Line, operation usher.Operation, denied bool) *impact.Subject {
	out, stored := objectOf(e.ResponseObject)
	sent := sync.OnceValue(func() *head {
		h, _ := objectOf(e.RequestObject)
		return &h
	})
	r := &usher.Request{
		Phase: usher.Mutate, Operation: operation, Resource: schema.GroupVersionResource{Group: line.Group, Version: line.Version, Resource: line.Resource},
		Subresource: line.Subresource, Namespace: line.Namespace, Name: nameOf(e, line, &out, sent), DryRun: strings.Contains(e.RequestURI, "dryRun=All"),
	}
	if r.Resource.Group == "" && r.Resource.Resource == "namespaces" {
		r.Namespace = r.Name
	}
	s := &impact.Subject{Request: r}
	key := r.Resource.GroupResource().String() + "\x00" + line.Namespace + "\x00" + r.Name
	before, lasts := l.objects.known[key], !denied && !r.DryRun && line.Subresource == ""
	switch operation {
	case usher.Connect:
		s.Unknown.Object, r.Kind = noOptions, sent().kind()
		return s
	case usher.Delete:
		deletion(s, before)
		if lasts {
			l.objects.forget(key)
		}
		return s
	case usher.Create, usher.Update:
	}
	switch {
	case e.Annotations["audit.k8s.io/truncated"] != "":
		s.Unknown.Object = truncated
	case !denied && out.isObject():
		r.Kind, r.Object, s.Admitted = out.kind(), usher.RawObject(stored), true
	default:
		asSent(s, e, line, sent())
	}
	if operation == usher.Update && (before == nil || line.Subresource != "") {
		s.Unknown.OldObject = noOld
	} else if operation == usher.Update {
		r.OldObject = usher.RawObject(before)
	}
	if s.Admitted && lasts {
		l.objects.keep(key, e.ResponseObject)
	}
	return s
}

// nameOf returns the name of the object that a write is for.
func nameOf(e *event, line *authz.Line, out *head, sent func() *head) string {
	name := line.Name
	if e.ObjectReference != nil {
		name = cmp.Or(name, e.ObjectReference.Name)
	}
	if name = cmp.Or(name, out.Metadata.Name); name == "" {
		name = sent().Metadata.Name
	}
	return name
}

// asSent adds the object of a creation or an update as it was sent, if the log has it.
func asSent(s *impact.Subject, e *event, line *authz.Line, sent *head) {
	s.Request.Kind = sent.kind()
	if sent.isObject() && line.Verb != "patch" {
		s.Request.Object, s.Unknown.Defaults = usher.RawObject(e.RequestObject), noDefaults
		return
	}
	s.Unknown.Object = noObject
}

// deletion completes a deletion of what is remembered under a name.
func deletion(s *impact.Subject, before []byte) {
	switch {
	case s.Request.Name == "":
		s.Unknown.Object = manyDeleted
	case before == nil:
		s.Unknown.Object = noDeleted
	default:
		h, _ := objectOf(before)
		s.Request.Kind, s.Request.OldObject = h.kind(), usher.RawObject(before)
	}
}

// objectOf returns what an object has in common with others, and the object without the version that it got when it
// was stored.
func objectOf(object []byte) (h head, unstored []byte) {
	var tree, metadata map[string]json.RawMessage
	read := func(key string, into any) bool { return tree[key] == nil || json.Unmarshal(tree[key], into) == nil }
	if !bytes.HasPrefix(bytes.TrimSpace(object), []byte("{")) || json.Unmarshal(object, &tree) != nil ||
		!read("apiVersion", &h.APIVersion) || !read("kind", &h.Kind) || !read("metadata", &h.Metadata) {
		return head{}, object
	}
	if h.Metadata.ResourceVersion == "" || json.Unmarshal(tree["metadata"], &metadata) != nil {
		return h, object
	}
	delete(metadata, "resourceVersion")
	tree["metadata"] = join(metadata)
	return h, join(tree)
}

// isObject reports whether it is that of an object of a cluster.
func (h *head) isObject() bool {
	return h.Kind != "" && h.Kind != "Status" && !strings.HasSuffix(h.Kind, "Options")
}

func (h *head) kind() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(h.APIVersion, h.Kind)
}

// join returns an object with fields, each of which was decoded.
func join(fields map[string]json.RawMessage) []byte {
	size := 2
	for key, value := range fields {
		size += len(key) + len(value) + 4
	}
	text := append(make([]byte, 0, size), '{')
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if len(text) > 1 {
			text = append(text, ',')
		}
		name, _ := json.Marshal(key)
		text = append(append(append(text, name...), ':'), fields[key]...)
	}
	return append(text, '}')
}
