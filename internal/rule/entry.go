package rule

import (
	"crypto/sha256"
	"encoding/hex"
	"reflect"
	"regexp"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
)

// An Entry is one of the webhooks that an API server asks about a request. The rules that
// belong to it follow from its name and from the rules alone, not from what a cluster serves:
// replicas that know different things run the same rules for it.
//
// An API server asks several of them about one request, and no rule belongs to two of those:
//
//   - the entry of a phase, such as validate, gets objects in the version that the client
//     used, and runs the rules that match them;
//   - an entry with Versions, such as validate-v1, only gets objects that were converted, and
//     runs the rules that name just these versions of the object's kind;
//   - an entry with the part [Metadata] gets writes of status and finalize subresources that
//     change metadata, and runs the rules that read it; rules that name resources belong to the
//     entry of the phase, whatever the subresource;
//   - an entry with the part [Beside] is both of these, for callers that ask once;
//   - if there are rules to run again after later changes, API servers call the entry with the part
//     [Reinvoked] for them, with reinvocationPolicy IfNeeded, and the one with the part [Once] for the
//     others, in place of that of the phase, which has all for callers that ask once;
//   - an entry with the part [Existing] gets changes of namespaces, and runs the rules that inspect what
//     exists in them. API servers call it only for requests for which they do not call the entry of the
//     phase, which has these rules, too;
//   - entries with the parts [Candidates] and [TenantCandidates] get what entries of policies in force do
//     not get, and have no rules: nothing that they answer has an effect;
//   - an entry with the part [Policies] gets writes of policies, but for those that an entry with
//     the part [Rights] gets: whatever may change what a policy says whose writer needs rights;
//   - the entry with the part [Deletions] gets deletions of policies that deny in the tier platform.
type Entry struct {
	Phase usher.Phase
	Part  Part
	// Versions are those that rules name, as [Entry.String] shows them; empty for objects in
	// the version that the client used.
	Versions string
}

// A Part is the part of the requests that an [Entry] is for.
type Part string

// The parts of a registration. Objects is everything that is in no other part.
const (
	Objects  Part = ""
	Metadata Part = "metadata"
	// Beside is for callers that see every request: it has the rules of Metadata and those that
	// name resources. It is not registered.
	Beside   Part = "beside"
	Policies Part = "policies"
	// Once and Reinvoked have the rules of Objects: those that are not, and those that are
	// [Rule.Reinvoked]. They are for mutation only.
	Once      Part = "once"
	Reinvoked Part = "reinvoked"
	// Existing has the rules of Objects that are [Rule.Inspects]. It is for validation only.
	Existing Part = "existing"
	// Candidates and TenantCandidates are for candidates of the cluster, and of namespaces.
	Candidates       Part = "candidates"
	TenantCandidates Part = "tenantcandidates"
	// Rights and Deletions are for guards of policies only: Deletions has no rules, and Rights has
	// those of Policies.
	Rights    Part = "rights"
	Deletions Part = "deletions"
)

// String is the name of the entry: the phase, the part and the versions, such as validate,
// mutate-metadata or validate-v1.
func (e Entry) String() string {
	var name strings.Builder
	name.WriteString(string(e.Phase))
	for _, word := range []string{string(e.Part), e.Versions} {
		if word != "" {
			name.WriteString("-" + word)
		}
	}
	return name.String()
}

// ParseEntry is the inverse of [Entry.String]. It reports whether name is one of an entry.
func ParseEntry(name string) (Entry, bool) {
	phase, rest, more := strings.Cut(name, "-")
	e := Entry{Phase: usher.Phase(phase)}
	if e.Phase != usher.Mutate && e.Phase != usher.Validate || more && rest == "" {
		return Entry{}, false
	}
	cut := false
	if part, versions, more := strings.Cut(rest, "-"); Part(part).isName(e.Phase) {
		e.Part, rest, cut = Part(part), versions, more && versions == ""
	}
	e.Versions = rest
	versioned := e.Part == Objects || e.Part == Metadata || e.Part == Beside
	return e, !cut && (rest == "" || versioned && isVersions.MatchString(rest))
}

// isName reports whether p is the name of a part of a phase.
func (p Part) isName(phase usher.Phase) bool {
	switch p {
	case Metadata, Beside:
		return true
	case Once, Reinvoked:
		return phase == usher.Mutate
	case Existing:
		return phase == usher.Validate
	case Policies, Rights, Deletions, Candidates, TenantCandidates:
		return true
	case Objects:
	}
	return false
}

// OfPolicies reports whether the entry receives writes of policies.
func (e Entry) OfPolicies() bool { return e.Part.isOfPolicies() }

// OfCandidates reports whether the entry is for candidates alone.
func (e Entry) OfCandidates() bool { return e.Part == Candidates || e.Part == TenantCandidates }

func (p Part) isOfPolicies() bool { return p == Policies || p == Rights || p == Deletions }

// Whole reports whether all rules belong to the entry.
func (e Entry) Whole() bool {
	return (e.Part == Objects || e.Part.isOfPolicies()) && e.Versions == ""
}

// EntryOf returns the entry that is called for a request without conversion. Only the caller knows
// which kinds are policies.
func EntryOf(r *usher.Request) Entry {
	e := Entry{Phase: r.Phase}
	if writesBeside(r) {
		e.Part = Metadata
	}
	return e
}

// CompleteEntryOf is [EntryOf] for callers that see every request and ask once about it.
func CompleteEntryOf(r *usher.Request) Entry {
	e := EntryOf(r)
	switch {
	case e.Part == Metadata && changesMetadata(r):
		e.Part = Beside
	case e.Part == Metadata:
		e.Part = Objects
	}
	return e
}

var (
	// isVersion matches versions as Kubernetes names them: they can stand in a name.
	isVersion  = regexp.MustCompile(`^v[1-9][0-9]{0,5}((alpha|beta)[1-9][0-9]{0,5})?$`)
	isVersions = regexp.MustCompile(`^(v[0-9a-z.]+|x[0-9a-f]{16})$`)
)

// maxVersions bounds how many versions stand in a name.
const maxVersions = 4

// VersionsOf returns the [Entry.Versions] of rules that name these API versions of a kind. The
// short form omits their group; the full form is unique. A long set only has the full form.
func VersionsOf(apiVersions []string) (short, full string) {
	sum := sha256.Sum256([]byte(strings.Join(apiVersions, " ")))
	full = "x" + hex.EncodeToString(sum[:8])
	if len(apiVersions) == 0 || len(apiVersions) > maxVersions {
		return full, full
	}
	group, _ := split(apiVersions[0])
	versions := make([]string, len(apiVersions))
	for i, apiVersion := range apiVersions {
		other, version := split(apiVersion)
		if other != group || !isVersion.MatchString(version) {
			return full, full
		}
		versions[i] = version
	}
	return strings.Join(versions, "."), full
}

func split(apiVersion string) (group, version string) {
	if group, version, ok := strings.Cut(apiVersion, "/"); ok {
		return group, version
	}
	return "", apiVersion
}

// named reports whether e is for the rules that name these API versions of a kind.
func (e Entry) named(apiVersions []string) bool {
	short, full := VersionsOf(apiVersions)
	return e.Versions == short || e.Versions == full
}

// Of returns those of rules that belong to the entry, in the same order, with what of their
// selectors does. Rules without a policy belong to every entry.
func (e Entry) Of(rules []Rule) []Rule {
	if e.Whole() {
		return rules
	}
	var own []Rule
	for i := range rules {
		r := rules[i]
		if r.Phase != e.Phase {
			continue
		}
		if r.Policy == (usher.PolicyRef{}) || e.narrow(&r) {
			own = append(own, r)
		}
	}
	return own
}

// narrow leaves of a rule what belongs to e, and reports whether anything does.
func (e Entry) narrow(r *Rule) bool {
	if len(r.Match.Resources) > 0 {
		return e.takes(r)
	}
	if e.Part == Reinvoked || e.Part == Existing || e.OfCandidates() || (e.Part == Metadata || e.Part == Beside) && !r.readsMetadata() {
		return false
	}
	if e.Versions == "" {
		return true
	}
	versions := r.Match.versions()
	r.Match.Selectors = slices.DeleteFunc(slices.Clone(r.Match.Selectors), func(sel Selector) bool {
		return !e.named(versions[sel.Kind])
	})
	return len(r.Match.Selectors) > 0
}

// takes reports whether a rule that names resources belongs to e.
func (e Entry) takes(r *Rule) bool {
	switch e.Part {
	case Beside:
		return true
	case Once:
		return !r.Reinvoked && !r.Inspects
	case Reinvoked:
		return r.Reinvoked
	case Existing:
		return r.Inspects
	case Objects, Metadata, Policies, Rights, Deletions, Candidates, TenantCandidates:
	}
	return false
}

// covers reports whether an object can be selected by sel, which is one of m.
func (m *Match) covers(sel *Selector) bool {
	return !sel.never() && (sel.Namespace == "" || m.Namespace == "" || sel.Namespace == m.Namespace)
}

// versions returns the API versions of each kind that m names, sorted.
func (m *Match) versions() map[string][]string {
	all := make(map[string][]string, len(m.Selectors))
	for i := range m.Selectors {
		if sel := &m.Selectors[i]; m.covers(sel) {
			all[sel.Kind] = append(all[sel.Kind], sel.APIVersion)
		}
	}
	for kind, versions := range all {
		slices.Sort(versions)
		all[kind] = slices.Compact(versions)
	}
	return all
}

// guarded are the fields of metadata that can be changed through the status and finalize
// subresources.
var guarded = [...]string{"labels", "annotations", "ownerReferences", "finalizers"}

// readsMetadata reports whether the outcome or the patch of a rule may depend on, or change,
// metadata that subresources can change.
func (r *Rule) readsMetadata() bool {
	for i := range r.Match.Selectors {
		sel := &r.Match.Selectors[i]
		if sel.Name == "" && (sel.Labels != nil && !sel.Labels.Empty() || slices.ContainsFunc(sel.Fields, fieldOfMetadata)) {
			return true
		}
	}
	object, old := r.ReadPaths()
	return slices.ContainsFunc(guarded[:], func(field string) bool { return object.Meets("metadata", field) || old.Meets("metadata", field) })
}

func fieldOfMetadata(f Field) bool {
	return len(f.Path) > 0 && f.Path[0] == "metadata" && (len(f.Path) == 1 || slices.Contains(guarded[:], f.Path[1]))
}

// writesBeside reports whether a request writes an object through its status or finalize
// subresource.
func writesBeside(r *usher.Request) bool {
	return r.Operation == usher.Update && (r.Subresource == "status" || r.Subresource == "finalize")
}

// changesMetadata reports whether a request changes labels, annotations, owners or
// finalizers, and so whether API servers send it to an entry for [Metadata].
func changesMetadata(r *usher.Request) bool {
	return Changes(r, nil, guarded[:])
}

// Changes reports whether a request changes one of these fields of the object or of its metadata. It
// is true if one of the objects cannot be read.
func Changes(r *usher.Request, fields, ofMetadata []string) bool {
	object, err := r.Object.Tree()
	if err != nil {
		return true
	}
	old, err := r.OldObject.Tree()
	if err != nil {
		return true
	}
	now, _ := object["metadata"].(map[string]any)
	before, _ := old["metadata"].(map[string]any)
	differs := func(a, b map[string]any) func(string) bool {
		return func(field string) bool { return !reflect.DeepEqual(a[field], b[field]) }
	}
	return slices.ContainsFunc(fields, differs(object, old)) || slices.ContainsFunc(ofMetadata, differs(now, before))
}
