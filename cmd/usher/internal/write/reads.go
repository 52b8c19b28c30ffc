package write

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/rule"
)

// A readsReport says what policies read besides requests, and the rights that this needs.
type readsReport struct {
	Reads  []Read      `json:"reads"`
	Values chartValues `json:"values"`
}

// A Read is something that a policy reads.
type Read struct {
	Policy usher.PolicyRef `json:"policy"`
	// As says by what name or way: params, data.NAME, existingObjects, owner, reference, namespaces or access.
	As         string `json:"as"`
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	URL        string `json:"url,omitempty"`
	// Group, Resource and Verbs are the right that Usher needs.
	Group    string   `json:"group,omitempty"`
	Resource string   `json:"resource,omitempty"`
	Verbs    []string `json:"verbs,omitempty"`
	// Guessed says that the kind is not known, and that Resource is what its kind is usually called in the plural.
	Guessed bool `json:"guessed,omitempty"`
}

// chartValues are the values of the chart that give the rights.
type chartValues struct {
	Facts factsValues `json:"facts"`
}

type factsValues struct {
	Namespaces bool             `json:"namespaces,omitempty"`
	Owners     bool             `json:"owners,omitempty"`
	Resources  []resourceValues `json:"resources"`
}

type resourceValues struct {
	APIGroups []string `json:"apiGroups"`
	Resources []string `json:"resources"`
}

// newReadsReport finds what policies read. The paths may have CustomResourceDefinitions.
func newReadsReport(compiled []compile.Compiled, paths []string) (*readsReport, error) {
	defined, err := kind.Defined(definitions(paths))
	if err != nil {
		return nil, err
	}
	r := &readsReport{Reads: []Read{}, Values: chartValues{factsValues{Resources: []resourceValues{}}}}
	finder := finder{report: r, kinds: kind.Recorded().With(defined)}
	for i := range compiled {
		finder.policy(&compiled[i])
	}
	r.Values.Facts.Resources = finder.resources()
	return r, nil
}

// Reads returns what policies read besides requests.
func Reads(compiled []compile.Compiled) ([]Read, error) {
	r, err := newReadsReport(compiled, nil)
	if err != nil {
		return nil, err
	}
	return r.Reads, nil
}

// What returns what is read, in short.
func (r *Read) What() string {
	return cmp.Or(r.URL, strings.TrimSpace(r.APIVersion+" "+r.Kind), "owners of objects")
}

// Right returns the right that Usher needs; "-" for none.
func (r *Read) Right() string {
	if r.Resource == "" {
		return "-"
	}
	return strings.Join(r.Verbs, ",") + " " + strings.TrimSuffix(r.Resource+"."+r.Group, ".")
}

// A finder finds what policies read.
type finder struct {
	report *readsReport
	kinds  *kind.Set
	// named are the resources that the chart has to name, by their groups.
	named map[string]map[string]bool
}

func (f *finder) policy(c *compile.Compiled) {
	if typed := c.Typed(); typed != nil {
		if of := typed.Params(); !of.Empty() {
			f.object(c.Ref, "params", of)
		}
		for _, d := range typed.Data() {
			f.object(c.Ref, "data."+d.Name, d.Kind)
		}
		f.http(c)
		if c.Object != nil && !c.Object.Existing().Empty() {
			f.object(c.Ref, "existingObjects", c.Object.Existing())
		}
		var texts []string
		for _, e := range typed.Expressions() {
			texts = append(texts, e.Text)
		}
		text := strings.Join(texts, "\n")
		if strings.Contains(text, "namespaceObject") {
			f.object(c.Ref, "namespaceObject", schema.GroupVersionKind{Version: "v1", Kind: "Namespace"})
		}
		if strings.Contains(text, "authorizer") {
			f.add(Read{
				Policy: c.Ref, As: "authorizer", APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview",
				Group: "authorization.k8s.io", Resource: "subjectaccessreviews", Verbs: []string{"create"},
			})
		}
	}
	for i := range c.Rules {
		for _, step := range c.Rules[i].Steps {
			traced, ok := step.Program.(rule.Traced)
			if !ok {
				continue
			}
			for _, use := range traced.Uses() {
				switch {
				case use.Of == rule.OwnerObject:
					f.report.Values.Facts.Owners = true
					f.add(Read{Policy: c.Ref, As: "owner", Verbs: []string{"get"}})
				case use.Of == rule.OtherObject && !use.Kind.Empty():
					f.object(c.Ref, "reference", use.Kind)
				}
			}
		}
	}
}

// http adds the addresses of spec.data.
func (f *finder) http(c *compile.Compiled) {
	spec := c.ObjectSpec()
	if spec == nil {
		return
	}
	for i := range spec.Data {
		if h := spec.Data[i].HTTP; h != nil {
			// Without what may be secret.
			address := (&fact.HTTP{Method: cmp.Or(h.Method, "GET"), URL: h.URL}).String()
			f.add(Read{Policy: c.Ref, As: "data." + spec.Data[i].Name, URL: address})
		}
	}
}

// object adds objects of a kind, with the right to read them.
func (f *finder) object(of usher.PolicyRef, as string, gvk schema.GroupVersionKind) {
	resource := ""
	for _, served := range f.kinds.Serving(gvk) {
		if !strings.Contains(served.Name, "/") {
			resource = served.Name
		}
	}
	guessed := resource == ""
	if guessed {
		resource = pluralOf(gvk)
	}
	apiVersion, name := gvk.ToAPIVersionAndKind()
	f.add(Read{
		Policy: of, As: as, APIVersion: apiVersion, Kind: name, Group: gvk.Group, Resource: resource, Verbs: []string{"get", "list", "watch"}, Guessed: guessed,
	})
	if gvk.Group == "" && resource == "namespaces" {
		f.report.Values.Facts.Namespaces = true
		return
	}
	if f.named == nil {
		f.named = map[string]map[string]bool{}
	}
	if f.named[gvk.Group] == nil {
		f.named[gvk.Group] = map[string]bool{}
	}
	f.named[gvk.Group][resource] = true
}

// pluralOf guesses the resource of a kind.
func pluralOf(gvk schema.GroupVersionKind) string {
	singular := strings.ToLower(gvk.Kind)
	if stem, ok := strings.CutSuffix(singular, "y"); ok && stem != "" && strings.ContainsAny(stem[len(stem)-1:], "aeiou") {
		// The function below makes "gatewaies" of Gateway.
		return singular + "s"
	}
	guess, _ := meta.UnsafeGuessKindToResource(gvk)
	return guess.Resource
}

func (f *finder) add(r Read) {
	if !slices.ContainsFunc(f.report.Reads, func(known Read) bool { return fmt.Sprint(known) == fmt.Sprint(r) }) {
		f.report.Reads = append(f.report.Reads, r)
	}
}

func (f *finder) resources() []resourceValues {
	all := []resourceValues{}
	for _, group := range slices.Sorted(maps.Keys(f.named)) {
		all = append(all, resourceValues{[]string{group}, slices.Sorted(maps.Keys(f.named[group]))})
	}
	return all
}

// print prints a table, and the values of the chart.
func (r *readsReport) print(s cli.Streams) error {
	w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "POLICY\tAS\tREADS\tRIGHT")
	for i := range r.Reads {
		x := &r.Reads[i]
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", x.Policy, x.As, x.What(), x.Right())
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	if err := r.printGuessed(s); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	if _, err := fmt.Fprintln(s.Out, "\nValues of the chart:"); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	yaml := cli.OutputFlag{Choice: cli.Choice{Value: "yaml"}}
	return yaml.Encode(s.Out, r.Values)
}

// printGuessed names the resources that are guesses.
func (r *readsReport) printGuessed(s cli.Streams) error {
	var guessed []string
	for i := range r.Reads {
		if x := &r.Reads[i]; x.Guessed && !slices.Contains(guessed, x.Resource+"."+x.Group) {
			guessed = append(guessed, x.Resource+"."+x.Group)
		}
	}
	if len(guessed) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(s.Out, "\nnote: guessed from the kind: %s; add the file with the CustomResourceDefinition to be sure\n", printable.Line(strings.Join(guessed, ", ")))
	return err
}
