package served

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/observe/recent"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/rule"
)

// ExemptLine returns the command that exempts an object that a candidate would deny, or that is denied and exists; empty
// if there is none.
func ExemptLine(d *recent.Decision) string {
	denied := d.Verdict == string(usher.Deny) && d.Operation != string(usher.Create)
	if d.Candidate != nil {
		denied = slices.Contains(d.Differences, "denied")
	}
	if !denied || d.Phase == string(usher.Authorize) || d.Name == "" || d.Operation == string(usher.Delete) {
		return ""
	}
	namespace, kind := d.Namespace, d.Kind
	switch d.Subresource {
	case "", "ephemeralcontainers", "finalize", "resize", "status":
	case "scale":
		kind = d.Resource
	default:
		return "" // Its object is not stored, such as an Eviction.
	}
	if kind == "Namespace" {
		namespace = ""
	}
	if d.Candidate == nil {
		return Exempt(kind, namespace, d.Name, "")
	}
	candidate := "clusterpolicycandidate"
	if d.Candidate.Namespace != "" {
		candidate = "policycandidate"
	}
	return "kubectl get " + candidate + " " + Quote(d.Candidate.Name) + In(d.Candidate.Namespace) + " -o json | " +
		Exempt(kind, namespace, d.Name, " -p - --if-denied"+chosen(d))
}

// chosen returns the flags that exempt from nothing but the policies because of which a candidate denies; empty if not all
// of them are known.
func chosen(d *recent.Decision) string {
	if d.Omitted > 0 {
		return ""
	}
	var flags []string
	for i := range d.Rules {
		r := &d.Rules[i]
		flag := " --policy " + Policy(r.Policy)
		if (r.Outcome == usher.Rejected || r.Outcome == usher.Failed && !r.Ignored) && !slices.Contains(flags, flag) {
			flags = append(flags, flag)
		}
	}
	return strings.Join(flags, "")
}

// Exempt returns the command that exempts an object of the cluster.
func Exempt(kind, namespace, name, more string) string {
	return "usher exempt --from-cluster " + Object(kind, namespace, name) + more + " --reason WHY --owner WHO"
}

// Object returns the arguments that name an object of the cluster.
func Object(kind, namespace, name string) string {
	return Quote(strings.ToLower(kind)+"/"+name) + In(namespace)
}

// In returns the flag for a namespace; "" for none.
func In(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " -n " + Quote(namespace)
}

// Policy returns the argument that names a policy to --policy.
func Policy(ref usher.PolicyRef) string {
	return Quote(rule.FullName(ref))
}

// AnyGroup is the argument of an [ExplainLine] for the groups of a user, which decisions do not have.
const AnyGroup = " --as-group GROUP"

// ExplainLine returns the command that explains such a decision. The groups of service accounts follow from their names.
func ExplainLine(d *recent.Decision) string {
	as := ""
	if d.User != "" {
		as = " --as " + Quote(d.User)
		if !strings.HasPrefix(d.User, "system:serviceaccount:") {
			as += AnyGroup
		}
	}
	if d.Phase == string(usher.Authorize) {
		if d.Path != "" {
			return "usher authz can-i --url " + Quote(strings.ToUpper(d.Operation)+":"+d.Path) + as
		}
		about := d.Resource
		if d.Name != "" {
			about += "/" + d.Name
		}
		return "usher authz can-i " + Quote(d.Operation) + " " + Quote(about) + cmp.Or(In(d.Namespace), " -A") + as
	}
	return "usher explain --from-cluster OBJECT.yaml --operation " + Quote(d.Operation) + In(d.Namespace) + as
}

// plain matches what shells take as it is.
var plain = regexp.MustCompile(`^[A-Za-z0-9@%+=:,./_-]+$`)

// Quote returns a text as one word of a shell.
func Quote(text string) string {
	text = printable.Line(text)
	if plain.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// Flag returns a flag as a shell takes it, behind a space; "" without a value.
func Flag(name, value string) string {
	if value == "" {
		return ""
	}
	return " --" + name + " " + Quote(value)
}
