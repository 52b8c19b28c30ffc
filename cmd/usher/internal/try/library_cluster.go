package try

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/format"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/internal/audit/result"
)

// JudgeCluster judges the objects of a cluster, or of one of its namespaces, by policies that are not in force.
type JudgeCluster func(cmd *cobra.Command, s cli.Streams, config *rest.Config, set policies.Set, namespace string) (*format.Report, error)

// readsObjects reports whether the objects are those of a cluster.
func (f *libraryFlags) readsObjects() bool { return f.fromCluster && len(f.files) == 0 }

// validateReading checks the flags of a command that reads objects from a cluster, which excludes
// those about objects of files.
func validateReading(cmd *cobra.Command) error {
	var err error
	cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		if flag.Changed && !slices.Contains(readingFlags(), flag.Name) {
			err = fmt.Errorf("--%s is for objects of files, which -f names: without -f the objects and facts are those of the cluster, as if each was created now", flag.Name)
		}
	})
	return err
}

// readingFlags are the flags that go with objects of a cluster.
func readingFlags() []string {
	return []string{"from-cluster", "kubeconfig", "context", "namespace", "packs", "params", "action", "output", "color", "summary", "policy-timeout"}
}

// exemptions returns those of the cluster, and those among the objects of files.
func (f *libraryFlags) exemptions(cmd *cobra.Command, s cli.Streams) ([]api.Policy, error) {
	f.facts.Namespace = f.namespace
	trees, err := f.facts.Objects()
	if err != nil {
		return nil, err
	}
	var all []api.Policy
	for _, tree := range slices.Concat(f.known, trees) {
		of := result.IdentityOf(tree)
		kind, ok := api.KindNamed(schema.FromAPIVersionAndKind(of.APIVersion, of.Kind))
		if !ok || !kind.Exempts {
			continue
		}
		policy, err := policyOf(tree)
		if err != nil {
			return nil, err
		}
		if kind.Namespaced && policy.Object.GetNamespace() == "" {
			policy.Object.SetNamespace(f.namespace)
		}
		all = append(all, policy)
	}
	if !f.fromCluster {
		return all, nil
	}
	clients, err := f.connect()
	if err != nil {
		return nil, err
	}
	stored, err := policies.Exemptions(cmd, s, clients.Policies, f.namespace)
	return append(all, stored...), err
}

// tryCluster adds what the policies say about the objects of a cluster.
func (f *libraryFlags) tryCluster(cmd *cobra.Command, s cli.Streams, parts []part, report *libraryReport) error {
	config, err := f.rest()
	if err != nil {
		return err
	}
	objects, read := map[result.Identity]*triedObject{}, map[schema.GroupVersionResource]int{}
	var order []result.Identity
	var forbidden, forbiddenKinds []string
	readable := false
	for i := range parts {
		audited, err := f.judge(cmd, s, config, parts[i].Set, f.namespace)
		if err != nil {
			return err
		}
		for i := range audited.Results {
			r := &audited.Results[i].Result
			if kind := audited.Results[i].Forbidden; r.Object.Name == "" && kind != "" && f.namespace != "" {
				forbidden, forbiddenKinds = append(forbidden, r.Message), append(forbiddenKinds, kind)
				continue
			}
			if r.Object.Name == "" {
				report.unread(r.Message)
				continue
			}
			o := objects[r.Object]
			if o == nil {
				o = &triedObject{Name: result.Identity{APIVersion: r.Object.APIVersion, Kind: r.Object.Kind, Namespace: r.Object.Namespace, Name: r.Object.Name}}
				objects[r.Object] = o
				order = append(order, r.Object)
			}
			o.add(r)
		}
		for _, k := range audited.Kinds {
			read[schema.GroupVersionResource{Group: k.Group, Version: k.Version, Resource: k.Resource}] = k.Objects
			readable = readable || k.Complete
		}
		report.NotJudged = append(report.NotJudged, audited.NotJudged...)
	}
	report.leaveOut(cmd, s, forbidden, forbiddenKinds, readable)
	for _, name := range order {
		report.addTried(objects[name])
	}
	for _, n := range read {
		report.Read += n
		report.Kinds += one(n > 0)
	}
	report.finish()
	return nil
}

// leaveOut says which kinds a user of a namespace may not list. If that is all kinds, nothing was tried.
func (r *libraryReport) leaveOut(cmd *cobra.Command, s cli.Streams, messages, kinds []string, others bool) {
	if !others {
		for _, message := range messages {
			r.unread(message)
		}
		return
	}
	slices.Sort(kinds)
	if r.LeftOut = slices.Compact(kinds); len(kinds) > 0 {
		cli.Notef(cmd, s, "note", "you may not list %s: these are left out", strings.Join(r.LeftOut, ", "))
	}
}

// add adds a result of an audit. Only those of rules that change objects have no action.
func (o *triedObject) add(r *result.Result) {
	switch {
	case r.Status == result.Skip:
	case r.Status == result.Warn && len(r.Actions) == 0:
		o.Changes = append(o.Changes, r.Policy.Name)
	default:
		o.Says = append(o.Says, said{Policy: r.Policy.Name, Validation: r.Validation, Severity: r.Severity, Field: r.Field, Message: strings.TrimPrefix(r.Message, result.OfPods), Failed: r.Status == result.Error})
	}
}
