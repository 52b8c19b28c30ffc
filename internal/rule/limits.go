package rule

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/usher-dev/usher/fact"
)

// Limits say what policies may do, as the operator of a cluster decides. The zero Limits
// bound what policies of namespaces do, and no cluster policy.
type Limits struct {
	// HTTP are the hosts that cluster policies may ask for facts; nil means all.
	HTTP *fact.Hosts
	// Namespaced applies to policies that are in a namespace.
	Namespaced NamespacedLimits
	// Kubernetes is the release whose functions expressions may use.
	Kubernetes Release
}

// ParseLimits reads limits as operators write them: hosts as in [ParseHosts], where none for
// cluster policies means all, and kinds as in [ParseKinds].
func ParseLimits(http, namespacedHTTP, kinds, references []string) (l Limits, err error) {
	if len(http) > 0 {
		hosts, err := ParseHosts(http)
		if err != nil {
			return l, fmt.Errorf("HTTP facts of cluster policies: %w", err)
		}
		l.HTTP = &hosts
	}
	if l.Namespaced.HTTP, err = ParseHosts(namespacedHTTP); err != nil {
		return l, fmt.Errorf("HTTP facts of policies of a namespace: %w", err)
	}
	if l.Namespaced.Kinds, err = ParseKinds(kinds); err != nil {
		return l, fmt.Errorf("kinds of policies of a namespace: %w", err)
	}
	if l.Namespaced.References, err = ParseKinds(references); err != nil {
		return l, fmt.Errorf("references of policies of a namespace: %w", err)
	}
	if l.HTTP != nil && l.HTTP.Any() {
		l.HTTP = nil
	}
	return l, nil
}

// Fetches returns why a policy in a namespace, or for the cluster if that is empty, may not send
// requests to an address, and what to do. An empty address, or one with placeholders, is known only
// when a request is decided.
func (l *Limits) Fetches(namespace, address string) (what, do string) {
	hosts, flag := l.Namespaced.HTTP, "--namespaced-http-facts"
	if namespace == "" {
		if l.HTTP == nil {
			return "", ""
		}
		hosts, flag = *l.HTTP, "--http-facts"
	}
	host := ""
	if u, err := url.Parse(address); err == nil && !strings.Contains(address, "{{") {
		host = u.Host
	}
	do = "have the operator of Usher allow the host: " + flag
	if namespace != "" {
		do = "ask who administers the cluster for a policy of the cluster, or to allow the host: " + flag
	}
	switch {
	case len(hosts) == 0 && namespace != "":
		return "HTTP facts are off for policies of a namespace", do
	case len(hosts) == 0:
		return "HTTP facts are off", do
	case host != "" && !hosts.Allow(host):
		return fmt.Sprintf("HTTP facts do not come from %s: allowed are %s", host, strings.Join(hosts, ", ")), do
	}
	return "", ""
}

// NamespacedLimits are what policies of a namespace may do beyond acting on objects of that
// namespace and reading them.
type NamespacedLimits struct {
	// Kinds are those of [NeverNamespaced] that they may act on nevertheless.
	Kinds Kinds
	// References are kinds whose objects they may read in other namespaces, or cluster-scoped.
	References Kinds
	// HTTP are the hosts that they may ask for facts.
	HTTP fact.Hosts
}

// NeverNamespaced are the kinds that policies of a namespace never act on: by changing what
// administrators write of these kinds, they would gain the administrators' permissions.
func NeverNamespaced() Kinds {
	return Kinds{
		{Group: "rbac.authorization.k8s.io", Kind: "*"},
		{Group: "authorization.openshift.io", Kind: "*"},
		{Group: "authentication.k8s.io", Kind: "*"},
		{Group: "authorization.k8s.io", Kind: "*"},
		{Group: "policy.kcloudlabs.io", Kind: "*"},
		{Group: "usher.dev", Kind: "*"},
		{Kind: "Secret"},
		{Kind: "ServiceAccount"},
	}
}

// Bounds returns the bounds of the facts of a policy, whose namespace is empty if it is for the
// cluster. Reads are the kinds of objects that it reads.
func (l *Limits) Bounds(namespace string, reads []fact.Read) *fact.Bounds {
	if namespace == "" {
		if l.HTTP == nil {
			return nil
		}
		return &fact.Bounds{Hosts: *l.HTTP}
	}
	b := &fact.Bounds{Namespace: namespace, Reads: slices.Clone(reads), Anywhere: l.Namespaced.References.Has, Hosts: l.Namespaced.HTTP}
	slices.SortFunc(b.Reads, func(x, y fact.Read) int { return strings.Compare(fmt.Sprint(x), fmt.Sprint(y)) })
	b.Reads = slices.Compact(b.Reads)
	return b
}

// Excluded returns what policies of a namespace do not act on.
func (l NamespacedLimits) Excluded() *Excluded {
	return &Excluded{Kinds: NeverNamespaced(), But: l.Kinds}
}

// AskToRead says what to do about a policy of a namespace that reads objects in none.
const AskToRead = "ask who administers the cluster for a ClusterObjectPolicy, or to allow the kind: --namespaced-references"

// NoAction says that policies of a namespace do not act on a kind, or a resource.
func NoAction(on string) string { return "a policy of a namespace does not act on " + on }

// Excluded are kinds of objects that a rule is not for. Nil excludes none.
type Excluded struct {
	Kinds Kinds
	// But are those of Kinds that are not excluded.
	But Kinds
}

// Has reports whether objects of a kind are excluded. It allocates nothing.
func (e *Excluded) Has(apiVersion, kind string) bool {
	if e == nil {
		return false
	}
	group, _ := split(apiVersion)
	gk := schema.GroupKind{Group: group, Kind: kind}
	return e.Kinds.Has(gk) && !e.But.Has(gk)
}

// HasResource reports whether requests for a resource, or a subresource of it, are excluded. The
// resource may be "*" or "*/*" of a group.
func (e *Excluded) HasResource(group, resource string) bool {
	if e == nil {
		return false
	}
	name, _, _ := strings.Cut(resource, "/")
	if group == "" && resource == "serviceaccounts/token" {
		// A token is of a kind of another group.
		group, name = "authentication.k8s.io", "tokenrequests"
	}
	return e.Kinds.hasResource(group, name) && !e.But.hasResource(group, name)
}

// hasResource reports whether a resource, or all of a group, are those of kinds in k.
func (k Kinds) hasResource(group, resource string) bool {
	return slices.ContainsFunc(k, func(gk schema.GroupKind) bool {
		if gk.Group != group && gk.Group != "*" {
			return false
		}
		plural, _ := meta.UnsafeGuessKindToResource(gk.WithVersion("v1"))
		return gk.Kind == "*" || plural.Resource == resource
	})
}

// Kinds are kinds of objects. The kind, or the group and the kind, may be "*".
type Kinds []schema.GroupKind

// Has reports whether a kind is one of k.
func (k Kinds) Has(gk schema.GroupKind) bool {
	for i := range k {
		if (k[i].Group == gk.Group || k[i].Group == "*") && (k[i].Kind == gk.Kind || k[i].Kind == "*") {
			return true
		}
	}
	return false
}

// String is the kinds as [ParseKinds] reads them, separated by commas.
func (k Kinds) String() string {
	words := make([]string, len(k))
	for i := range k {
		words[i] = strings.TrimSuffix(k[i].Kind+"."+k[i].Group, ".")
		if k[i].Group == "*" {
			words[i] = "*"
		}
	}
	return strings.Join(words, ",")
}

var isKindName = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)

// ParseKinds reads kinds such as Secret, Role.rbac.authorization.k8s.io, *.example.com for all
// kinds of a group, and * for all kinds.
func ParseKinds(words []string) (Kinds, error) {
	var all Kinds
	for _, word := range words {
		if word == "*" {
			all = append(all, schema.GroupKind{Group: "*", Kind: "*"})
			continue
		}
		kind, group, grouped := strings.Cut(word, ".")
		if kind != "*" && !isKindName.MatchString(kind) || kind == "*" && !grouped ||
			grouped && len(validation.IsDNS1123Subdomain(group)) > 0 {
			return nil, fmt.Errorf("read kind %q: expected a kind with its group, such as Secret or Role.rbac.authorization.k8s.io, *.GROUP or *", word)
		}
		all = append(all, schema.GroupKind{Group: group, Kind: kind})
	}
	return all, nil
}

// isHost matches *, and names and addresses in brackets, with or without a port.
var isHost = regexp.MustCompile(`^(\*|(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]+)?|\[[0-9A-Fa-f:.]+\](:[0-9]+)?)$`)

// ParseHosts reads the hosts that facts may come from: "off" for none, or hosts as
// [fact.Hosts] has them.
func ParseHosts(words []string) (fact.Hosts, error) {
	if slices.Contains(words, "off") {
		if len(words) > 1 {
			return nil, fmt.Errorf("read hosts: off cannot be combined with %s", strings.Join(words, ","))
		}
		return nil, nil
	}
	for _, word := range words {
		if !isHost.MatchString(word) {
			return nil, fmt.Errorf("read host %q: expected a host such as cmdb.example, cmdb.example:8443 or *.example, * for all, or off", word)
		}
	}
	return words, nil
}
