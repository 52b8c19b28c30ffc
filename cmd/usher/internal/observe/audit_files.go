package observe

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/format"
	"github.com/usher-dev/usher/cmd/usher/internal/objects"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/fact"
	factobject "github.com/usher-dev/usher/fact/object"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/kind"
)

// auditFiles judges the objects in files.
func (f *auditFlags) auditFiles(cmd *cobra.Command, s cli.Streams) (*format.Report, error) {
	store, resolver, err := f.facts.Load()
	if err != nil {
		return nil, err
	}
	inForce, err := f.inForce(cmd, s)
	if err != nil {
		return nil, err
	}
	inputs, err := f.inputs(cmd, s)
	if err != nil {
		return nil, err
	}
	sc, err := f.scan(cmd, s, inForce, resolver)
	if err != nil {
		return nil, err
	}
	kinds, err := f.kinds(inputs)
	if err != nil {
		return nil, err
	}
	found := make([]object, 0, len(inputs))
	for i := range inputs {
		o, err := f.object(&inputs[i], kinds)
		if err != nil {
			return nil, err
		}
		found = append(found, o)
	}
	store.Assume(namespacesOf(found))
	stop := cli.ShowProgress(s.Err, func() string { return fmt.Sprintf("%d of %d objects", sc.done.Load(), len(found)) })
	err = sc.judge(cmd.Context(), found)
	stop()
	if err != nil {
		return nil, err
	}
	if missing := store.TakeMissing(); len(missing) > 0 {
		cli.Notef(cmd, s, "note", "policies read what --facts does not have: %s", strings.Join(missing, ", "))
	}
	return sc.report(), nil
}

// inForce returns the policies that are in force. There are none if all are those of --what-if.
func (f *auditFlags) inForce(cmd *cobra.Command, s cli.Streams) (policies.Set, error) {
	if len(f.policies) == 0 {
		return policies.None(&f.limits)
	}
	return policies.Usable(cmd, s, f.policies, &f.limits)
}

// inputs reads the objects of the files.
func (f *auditFlags) inputs(cmd *cobra.Command, s cli.Streams) ([]objects.Input, error) {
	inputs, err := objects.Read(cmd, s, f.files)
	for i := range inputs {
		if err == nil && inputs[i].Review != nil {
			err = fmt.Errorf("%s: an AdmissionReview is a request, not an object: see 'usher decide'", inputs[i].File)
		}
	}
	return inputs, err
}

// scan returns a scan with the policies in force, and those of --what-if if there are any.
func (f *auditFlags) scan(cmd *cobra.Command, s cli.Streams, inForce policies.Set, resolver fact.Resolver) (*scan, error) {
	last := inForce
	var whatIf *policies.Set
	if len(f.whatIf) > 0 {
		set, err := inForce.Replaced(cmd, s, f.whatIf, &f.limits)
		if err != nil {
			return nil, fmt.Errorf("--what-if: %w", err)
		}
		whatIf, last = &set, set
	}
	last.NoteSuspended(cmd, s)
	sc := newScan(inForce, whatIf, f.judging(resolver))
	if !sc.only(f.policy) {
		return nil, &cli.UsageError{Command: cmd.CommandPath(), Err: fmt.Errorf("--policy %s: there is no such policy", f.policy)}
	}
	return sc, nil
}

// kinds returns the kinds of Kubernetes, and those of CustomResourceDefinitions among the objects
// and the facts.
func (f *auditFlags) kinds(inputs []objects.Input) (*kind.Set, error) {
	var definitions []map[string]any
	for i := range inputs {
		definitions = append(definitions, inputs[i].Object)
	}
	facts, err := factobject.Load(f.facts.Files...)
	if err != nil {
		return nil, fmt.Errorf("--facts: %w", err)
	}
	defined, err := kind.Defined(slices.Concat(definitions, facts))
	if err != nil {
		return nil, err
	}
	return kind.Recorded().With(defined), nil
}

// object returns the object of an input. One of a namespaced kind gets the namespace of the flag, if
// it names none, as kubectl does.
func (f *auditFlags) object(in *objects.Input, kinds *kind.Set) (object, error) {
	apiVersion, _ := in.Object["apiVersion"].(string)
	name, _ := in.Object["kind"].(string)
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return object{}, fmt.Errorf("%s: %w", in.File, err)
	}
	o := object{kind: kindOf(gv.WithKind(name), kinds), tree: in.Object}
	o.file, o.line = f.place(in)
	metadata, ok := in.Object["metadata"].(map[string]any)
	if !ok {
		return object{}, fmt.Errorf("%s: %s has no metadata", in.File, name)
	}
	if namespace, _ := metadata["namespace"].(string); namespace == "" && f.namespace != "" && o.kind.Namespaced {
		metadata["namespace"] = f.namespace
	}
	return o, nil
}

// place returns the file of an object, and the lines of its fields in it. Those of templates are not
// known.
func (f *auditFlags) place(in *objects.Input) (file string, line func(field string) int) {
	folder, isFolder := strings.CutSuffix(f.stdinName, "/")
	switch {
	case in.File != "-":
		return in.File, in.Line
	case f.stdinName != "" && !isFolder:
		return f.stdinName, in.Line
	}
	if source := in.Origin.In(folder); source != "" {
		return source, func(string) int { return 0 }
	}
	return in.File, in.Line
}

// kindOf returns the resource of a kind. Of one that is not known it is the usual plural, and
// namespaced.
func kindOf(gvk schema.GroupVersionKind, kinds *kind.Set) result.Kind {
	for _, served := range kinds.Serving(gvk) {
		if !strings.Contains(served.Name, "/") {
			return result.Kind{Resource: gvk.GroupVersion().WithResource(served.Name), Kind: gvk.Kind, Namespaced: served.Namespaced}
		}
	}
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	return result.Kind{Resource: plural, Kind: gvk.Kind, Namespaced: true}
}
