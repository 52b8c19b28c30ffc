// Package fact is about data that a rule needs and its request does not carry: other
// objects of the cluster, answers of HTTP services, and what users may do.
//
// A program asks for a fact by returning [*Missing]; its caller resolves the [Ref] and runs the
// program again with the fact among the [Known] ones.
package fact

import (
	"fmt"
	"net/http"
	"net/url"
	"sort"
	"strconv"
	"strings"
	"time"
)

// A Ref names one fact: an [*Object], [*HTTP] or [Question].
type Ref interface {
	// Sort is what metrics count the fact as, and what [Resolvers] find its resolver by.
	Sort() Sort
	// Key returns a text that is equal for refs that mean the same fact and tells apart all
	// others. It begins with the sort and a space. It contains credentials: do not log it.
	Key() string
	// String names the fact for logs and messages, without credentials.
	String() string
	// Safe reports whether getting the fact changes nothing anywhere.
	Safe() bool
	// Confidential reports whether the fact holds credentials.
	Confidential() bool
	// Check returns why a rule with these bounds may not ask for the fact, nil if it may.
	Check(*Bounds) error
	// Unresolved returns the error of a fact that nothing here resolves.
	Unresolved() error
}

// A Sort is a sort of facts.
type Sort string

const (
	// Objects are those of [*Object].
	Objects Sort = "object"
	// Requests are those of [*HTTP].
	Requests Sort = "http"
	// Questions are those of [Question].
	Questions Sort = "access"
)

// Confidential reports whether objects of a kind hold credentials, which logs and explanations
// do not repeat.
func Confidential(kind string) bool {
	switch kind {
	case "Secret", "TokenRequest", "TokenReview":
		return true
	}
	return false
}

// An Object is an object of the cluster, by name or by selector. Its value is the object
// as a JSON tree. By name, an object that does not exist is an error; by selector, the
// first match by namespace and name counts, and nil says that nothing matched.
type Object struct {
	APIVersion string
	Kind       string
	// Namespace limits a selection; empty selects in all namespaces. With Name it is
	// the object's namespace, empty for cluster-scoped kinds.
	Namespace string
	Name      string
	// Selector is used when Name is empty.
	Selector Selector
	// All says that the value is a list of all objects that Selector chooses, by namespace and
	// name; it is empty if none is.
	All bool
	// Sample, unless nil, limits the list of a namespace that All is, whatever Selector says. The value
	// is a [*Sampled].
	Sample *Sample
	// AnyScope says that Namespace counts only if the kind is namespaced: the owner of a
	// namespaced object may be cluster-scoped. With All, a namespaced kind then needs a Namespace,
	// and nothing is selected in other ones.
	AnyScope bool
	// Live says that the API server is asked for this request, whatever is in memory.
	Live bool
}

// A Selector chooses objects. String is its canonical form: equal texts select alike.
type Selector interface {
	Matches(object map[string]any) bool
	String() string
}

// A LabelSelector is a Selector that also says which labels an object needs, in the syntax
// of the Kubernetes API, so that an API server can be asked for fewer objects. It must not
// match an object without those labels; an empty text needs none.
type LabelSelector interface {
	Selector
	LabelSelector() string
}

// String names the object, such as "v1 ConfigMap shop/site".
func (o *Object) String() string {
	name := o.Name
	if name == "" && o.Selector != nil {
		name = "(" + o.Selector.String() + ")"
	}
	if o.Namespace != "" {
		name = o.Namespace + "/" + name
	}
	return o.APIVersion + " " + o.Kind + " " + name
}

// Sort is [Objects].
func (*Object) Sort() Sort { return Objects }

// Safe is true: objects are read.
func (*Object) Safe() bool { return true }

// Confidential reports whether the object holds credentials.
func (o *Object) Confidential() bool { return Confidential(o.Kind) }

// Unresolved says that there are no objects.
func (o *Object) Unresolved() error {
	return fmt.Errorf("get %s: objects of the cluster are not available here", o)
}

// Key implements [Ref].
func (o *Object) Key() string {
	selector := ""
	if o.Name == "" && o.Selector != nil {
		selector = o.Selector.String()
	}
	texts := [...]string{o.APIVersion, o.Kind, o.Namespace, o.Name, selector}
	size := len("object") + len(" false false")
	for _, text := range texts {
		size += len(text) + len(` ""`)
	}
	b := append(make([]byte, 0, size), "object"...)
	for _, text := range texts {
		b = strconv.AppendQuote(append(b, ' '), text)
	}
	b = strconv.AppendBool(append(b, ' '), o.AnyScope)
	b = strconv.AppendBool(append(b, ' '), o.All)
	if o.Live {
		b = append(b, " live"...)
	}
	if o.Sample != nil {
		b = strconv.AppendInt(append(b, ' '), int64(o.Sample.Most), 10)
	}
	return string(b)
}

// A NotFound is the error of an object that does not exist.
type NotFound struct {
	Kind string
	// Name has the namespace before a slash.
	Name string
}

func (e *NotFound) Error() string { return fmt.Sprintf("%s %q not found", e.Kind, e.Name) }

// A NoKind is the error of objects of a kind that the cluster does not have.
type NoKind struct{ APIVersion, Kind string }

func (e *NoKind) Error() string { return "the cluster has no kind " + e.APIVersion + " " + e.Kind }

// A WrongScope is the error of objects that cannot exist: in a namespace although the kind is
// cluster-scoped, or in none although it is namespaced.
type WrongScope struct {
	// Namespaced is the scope of the kind.
	Namespaced bool
}

func (e *WrongScope) Error() string {
	if e.Namespaced {
		return "objects of this kind live in namespaces, and none is given"
	}
	return "objects of this kind live in no namespace"
}

// An HTTP is one HTTP request. Its value is {"body": object, "header": {Name: [values]},
// "trailer": {…}}; a body that is not a JSON object is an error, whatever the status,
// and the status is not looked at.
type HTTP struct {
	Method string
	// URL is complete: parameters are part of it.
	URL     string
	Header  map[string]string
	Trailer map[string]string
	Body    string
	// Timeout bounds this request; 0 leaves it to the resolver.
	Timeout time.Duration
	TLS     *TLS
	// Auth gets a bearer token for the request, nil none.
	Auth *Auth
}

// A TLS is what a request trusts and shows, in PEM. Cert and Key come together or not.
type TLS struct {
	CA, Cert, Key string
}

// An Auth says where a bearer token comes from: a POST to URL with HTTP Basic
// credentials answers {"token": …, "expireAt": milliseconds}.
type Auth struct {
	URL, Username, Password string
	// Lifetime is used when the answer has no expireAt; 0 means five minutes.
	Lifetime time.Duration
}

// String names the request by method and URL, such as "GET https://cmdb.example/teams?…".
// It leaves out what may be secret: user, password, parameters and fragment.
func (h *HTTP) String() string {
	u, err := url.Parse(h.URL)
	if err != nil || u.Opaque != "" {
		return h.Method + " (a URL that cannot be read)"
	}
	rest := ""
	if u.RawQuery != "" || u.Fragment != "" {
		rest = "?…"
	}
	u.User, u.RawQuery, u.ForceQuery, u.Fragment, u.RawFragment = nil, "", false, "", ""
	return h.Method + " " + u.String() + rest
}

// Sort is [Requests].
func (*HTTP) Sort() Sort { return Requests }

// Safe reports whether the method is GET or HEAD: those are meant to be safe (RFC 9110, section 9.2.1).
func (h *HTTP) Safe() bool {
	return h.Method == "" || h.Method == http.MethodGet || h.Method == http.MethodHead
}

// Confidential is false.
func (*HTTP) Confidential() bool { return false }

// Unresolved says that there are no HTTP requests.
func (h *HTTP) Unresolved() error { return fmt.Errorf("%s: HTTP requests are not possible here", h) }

// Key implements [Ref].
func (h *HTTP) Key() string {
	var b strings.Builder
	fmt.Fprintf(&b, "http %q %q %q", h.Method, h.URL, h.Body)
	for _, fields := range []map[string]string{h.Header, h.Trailer} {
		names := make([]string, 0, len(fields))
		for name := range fields {
			names = append(names, name)
		}
		sort.Strings(names)
		for _, name := range names {
			fmt.Fprintf(&b, " %q=%q", name, fields[name])
		}
		b.WriteString(" |")
	}
	if h.TLS != nil {
		fmt.Fprintf(&b, " %q", *h.TLS)
	}
	if h.Auth != nil {
		fmt.Fprintf(&b, " %q %q %q %s", h.Auth.URL, h.Auth.Username, h.Auth.Password, h.Auth.Lifetime)
	}
	return b.String()
}
