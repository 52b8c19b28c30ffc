// Package format writes the results of an audit for people and for other programs. Names, messages
// and fields come from objects and policies that anybody may have written: no format repeats
// characters in them that a terminal, a browser or a parser would obey.
package format

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/printable"
)

// A Report is the results of one audit.
type Report struct {
	// Results are those that are no passes.
	Results []Result `json:"results"`
	// Summary counts all results; Policies does so for each policy.
	Summary  result.Summary         `json:"summary"`
	Policies []result.PolicySummary `json:"policies"`
	// Objects is how many were audited; -1 means that this is not known.
	Objects int `json:"objects"`
	// Partial says that Policies are those with results: of others nothing is known.
	Partial bool `json:"-"`
	// Namespace is the one that was audited, of a cluster that Usher audits; "" for all.
	Namespace string `json:"-"`
	// Kinds are the kinds that were read from a cluster.
	Kinds []result.KindStatus `json:"kinds,omitempty"`
	// LeftOut are kinds of policies that are not those of the namespace that is audited, and that the user may not list.
	LeftOut []string `json:"leftOut,omitempty"`
	// NotJudged are the rules that say nothing of objects, although they are for them.
	NotJudged []judge.Unjudged `json:"notJudged,omitempty"`
	// MissingFacts are objects that policies read and that are not known: results would differ if they exist.
	MissingFacts []string `json:"missingFacts,omitempty"`
	// ByNamespace are the bindings that select Namespaces by their labels, if one of MissingFacts is a Namespace.
	ByNamespace []string `json:"-"`
	// Abouts are what policies say about themselves, as far as that is known.
	Abouts map[usher.PolicyRef]About `json:"-"`
}

// An About is what the writer of a policy says about it.
type About struct {
	Description string
	// Messages are those of its validations, by name or field, that are the same for all objects.
	Messages map[string]string
	// Links are URLs of pages about it.
	Links []string
}

// A Result is a result, and where its object comes from.
type Result struct {
	result.Result

	// File and Line are the place of the field in the file of the object; Line is 0 if it is not
	// known.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	// Forbidden is the kind that the user may not list, if that is why there is no other result; else "".
	Forbidden string `json:"-"`
}

// Unmatched returns the policies that are for none of the objects, without those that are not judged.
func (r *Report) Unmatched() []usher.PolicyRef {
	var refs []usher.PolicyRef
	for _, p := range r.Policies {
		unjudged := slices.ContainsFunc(r.NotJudged, func(u judge.Unjudged) bool { return u.Policy == p.PolicyRef })
		if p.Summary == (result.Summary{}) && !unjudged {
			refs = append(refs, p.PolicyRef)
		}
	}
	return refs
}

// AddNotJudged adds a rule to those that say nothing of objects, once.
func (r *Report) AddNotJudged(one judge.Unjudged) {
	if !slices.Contains(r.NotJudged, one) {
		r.NotJudged = append(r.NotJudged, one)
	}
}

// Incomplete reports that objects of a kind are still to be read or judged.
func (r *Report) Incomplete() bool {
	return slices.ContainsFunc(r.Kinds, func(k result.KindStatus) bool { return !k.Complete })
}

// NothingAudited is said of a report without results, also of passes.
const NothingAudited = "nothing was audited: no policy is for any of the objects"

// maxBindings is how many bindings are named.
const maxBindings = 3

// Missing says which objects are not known, and what follows; it is empty if policies read no such object.
func (r *Report) Missing() string {
	if len(r.MissingFacts) == 0 {
		return ""
	}
	follows := "a cluster that has them may say otherwise"
	if n := len(r.ByNamespace); n > 0 {
		named, bindings := r.ByNamespace, "the binding "
		if n > 1 {
			bindings = "the bindings "
		}
		if n > maxBindings {
			named = append(slices.Clone(named[:maxBindings]), strconv.Itoa(n-maxBindings)+" more")
		}
		follows = bindings + strings.Join(named, ", ") + " took Namespaces to have no labels, and a cluster may refuse what is not refused here"
	}
	return printable.Line("policies read what --facts does not have: " + strings.Join(r.MissingFacts, ", ") + "; " + follows +
		": give them with --facts, or put them among the manifests")
}

// Unread says which kinds of policies are left out; it is empty if there are none.
func (r *Report) Unread() string {
	if len(r.LeftOut) == 0 {
		return ""
	}
	return cli.Count(len(r.LeftOut), "kind", "kinds") + " of policies that you may not list, which may say something else: " + strings.Join(r.LeftOut, ", ")
}

// Nothing reports that nothing was audited.
func (r *Report) Nothing() bool { return r.Summary == (result.Summary{}) }

// policyName is the policy on one line.
func policyName(ref usher.PolicyRef) string {
	if ref == (usher.PolicyRef{}) {
		return "(no policy)"
	}
	return printable.Line(ref.String())
}

// Sort puts the results and policies in their order: results by object, then the worst first.
func (r *Report) Sort() {
	slices.SortStableFunc(r.Results, func(a, b Result) int {
		return cmp.Or(
			compareObjects(a.Object, b.Object), cmp.Compare(a.File, b.File),
			cmp.Compare(rank(a.Status), rank(b.Status)), cmp.Compare(result.SeverityRank(a.Severity), result.SeverityRank(b.Severity)),
			comparePolicies(a.Policy, b.Policy), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Rule, b.Rule),
			cmp.Compare(a.Field, b.Field), cmp.Compare(a.Message, b.Message),
		)
	})
	slices.SortFunc(r.Policies, func(a, b result.PolicySummary) int { return comparePolicies(a.PolicyRef, b.PolicyRef) })
}

func compareObjects(a, b result.Identity) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.UID, b.UID))
}

func comparePolicies(a, b usher.PolicyRef) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind))
}

func rank(s result.Status) int { return slices.Index(result.Statuses(), s) }

// CompareSeverities compares how serious two are, the worst first.
func CompareSeverities(a, b usher.Severity) int {
	return cmp.Compare(result.SeverityRank(a), result.SeverityRank(b))
}

// title is the object on one line.
func title(o result.Identity) string {
	return printable.Line(strings.TrimSpace(o.String()))
}

// place is the file and the line of a result; empty if it has none.
func (r *Result) place() string {
	switch {
	case r.File == "" || r.File == "-":
		return ""
	case r.Line == 0:
		return printable.Line(r.File)
	}
	return printable.Line(r.File) + ":" + strconv.Itoa(r.Line)
}

// sentence is what a result says, with the field first.
func (r *Result) sentence() string {
	message := r.Message
	if message == "" {
		message = "(no message)"
	}
	if r.Exemption != nil {
		return "exempt by " + r.Exemption.String() + ": " + r.Exemption.Reason
	}
	if r.Field != "" && !strings.Contains(r.Message, r.Field) {
		message = r.Field + ": " + message
	}
	return message
}

// counted are the counts in words, and how many of the failures that are listed are of workloads that would be admitted.
func (r *Report) counted() string {
	ofPods := 0
	for i := range r.Results {
		// Any policy can have such a message.
		if one := &r.Results[i]; one.Status == result.Fail && strings.HasPrefix(one.Message, result.OfPods) && !slices.Contains(one.Actions, usher.ActDeny) {
			ofPods++
		}
	}
	if ofPods == 0 {
		return counts(r.Summary)
	}
	return fmt.Sprintf("%s; %d of the failures would not deny the object, but its pods", counts(r.Summary), ofPods)
}

// counts is a summary in words, without what there is none of.
func counts(s result.Summary) string {
	var parts []string
	for _, row := range []struct {
		n    int
		word string
	}{{s.Error, "error"}, {s.Fail, "fail"}, {s.Warn, "warn"}, {s.Skip, "skip"}, {s.Pass, "pass"}} {
		if row.n > 0 {
			parts = append(parts, strconv.Itoa(row.n)+" "+row.word)
		}
	}
	if len(parts) == 0 {
		return "no results"
	}
	return strings.Join(parts, ", ")
}
