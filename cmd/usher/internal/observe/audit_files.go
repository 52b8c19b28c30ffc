package observe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/facts"
	"github.com/usher-dev/usher/cmd/usher/internal/format"
	"github.com/usher-dev/usher/cmd/usher/internal/objects"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/podtemplate"
)

// auditFiles judges the objects in files.
func (f *auditFlags) auditFiles(cmd *cobra.Command, s cli.Streams) (*format.Report, error) {
	f.facts.Namespace = f.namespace
	store, resolver, err := f.facts.Load()
	if err != nil {
		return nil, err
	}
	set, err := policies.Usable(cmd, s, f.policies, &f.limits)
	if err != nil {
		return nil, err
	}
	inputs, err := f.inputs(cmd, s)
	if err != nil {
		return nil, err
	}
	sc, err := f.scan(cmd, s, set, f.judging(resolver))
	if err != nil {
		return nil, err
	}
	input := objects.Trees(inputs)
	kinds, err := f.facts.Kinds(input...)
	if err != nil {
		return nil, err
	}
	objects.NoteSlips(cmd, s, inputs, kinds)
	objects.NoteNamespace(cmd, s, inputs, f.namespace)
	found := make([]object, 0, len(inputs))
	for i := range inputs {
		o, err := f.object(&inputs[i], kinds)
		if err != nil {
			return nil, err
		}
		found = append(found, o)
	}
	store.Assume(namespacesOf(found))
	facts.Know(input, f.namespace, store)
	stop := cli.ShowProgress(s.Err, func() string { return fmt.Sprintf("%d of %d objects", sc.done.Load(), len(found)) })
	err = sc.judgeAll(cmd.Context(), found)
	stop()
	if err != nil {
		return nil, err
	}
	sc.noteExcluding(cmd, s, set.Rules)
	if sc.lacks {
		objects.NoteDefaults(cmd, s)
	}
	report := sc.report()
	if report.MissingFacts = store.TakeMissing(); len(report.MissingFacts) > 0 {
		if slices.ContainsFunc(report.MissingFacts, func(name string) bool { return strings.HasPrefix(name, "v1 Namespace ") }) {
			report.ByNamespace = byNamespace(set.Compiled())
		}
		cli.Notef(cmd, s, "warning", "%s", report.Missing())
	}
	return report, nil
}

// byNamespace returns the bindings of policies that select Namespaces by their labels.
func byNamespace(policies []compile.Compiled) []string {
	var names []string
	for i := range policies {
		spec := policies[i].ObjectSpec()
		if spec == nil {
			continue
		}
		for j := range spec.Bindings {
			b := &spec.Bindings[j]
			if m := b.MatchResources; m != nil && m.NamespaceSelector != nil {
				names = append(names, cmp.Or(b.Name, fmt.Sprintf("spec.bindings[%d]", j))+" of "+policies[i].Ref.String())
			}
		}
	}
	return names
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

// scan returns a scan with policies.
func (f *auditFlags) scan(cmd *cobra.Command, s cli.Streams, set policies.Set, o judge.Options) (*scan, error) {
	set.NoteIdle(cmd, s)
	sc := newScan(set.OnPods(), o)
	if text := sc.only(f.policy); text != "" {
		return nil, &cli.UsageError{Command: cmd.CommandPath(), Err: fmt.Errorf("--policy: %s", text)}
	}
	return sc, nil
}

// object returns the object of an input.
func (f *auditFlags) object(in *objects.Input, kinds *kind.Set) (object, error) {
	k, err := in.Place(f.namespace, kinds)
	o := object{kind: k, tree: podtemplate.Defaulted(in.Object)}
	o.file, o.line = f.place(in)
	return o, err
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
