package write

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/objects"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/internal/compile/guard"
	"github.com/usher-dev/usher/internal/jsonpatch"
	"github.com/usher-dev/usher/internal/policytest"
	"github.com/usher-dev/usher/internal/printable"
)

type renderFlags struct {
	paths, from []string
	to          []string
	programs    bool
	partial     bool
	limits      policies.Limits
}

// Render returns usher render.
func Render(s cli.Streams) *cobra.Command {
	var f renderFlags
	cmd := &cobra.Command{
		Use:   "render PATH...",
		Short: "Show what the templates of policies become, and convert policies",
		Long: `Render does to policies what the webhook does when they are written to a cluster: it
fills in defaults and writes each template as a CUE program into renderedCue. The path -
means the standard input. Kubernetes' own admission policies have no templates: there is
nothing to render.

With --from it makes a ClusterObjectPolicy of each ValidatingAdmissionPolicy and
MutatingAdmissionPolicy with its bindings. Params that are among the files are written
into a binding that names exactly one object. With --to it does the reverse: vap is a
ValidatingAdmissionPolicy, map is a MutatingAdmissionPolicy, each with its bindings. What
these cannot express is an error, one line a feature, unless --partial is set.

Both forms of a policy decide generated requests before the new one is printed. A request
that they decide differently is an error.

The exit status is 0, 1 if a policy cannot be converted wholly, or 2 if a policy cannot
be read, rendered or converted.`,
		Example: `  usher render policy.yaml
  usher render --cue policy.yaml
  kubectl get clusteroverridepolicies -o yaml | usher render -
  usher render --from policy.yaml --from bindings.yaml
  usher render --to vap,map policy.yaml`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, s, args) },
	}
	flags := cmd.Flags()
	policies.RegisterFlag(flags, &f.paths, "; the same as PATH")
	flags.BoolVar(&f.programs, "cue", false, "print only the programs")
	flags.StringArrayVar(&f.from, "from", nil, "file or folder with admission policies, bindings and params to convert to ClusterObjectPolicies, - for the standard input (repeatable)")
	flags.StringSliceVar(&f.to, "to", nil, "kinds to convert ClusterObjectPolicies to: vap, map or both")
	flags.BoolVar(&f.partial, "partial", false, "with --to, leave out what cannot be expressed")
	cli.Offer(cmd, "to", targetNames()...)
	f.limits.RegisterTimeout(cmd)
	return cmd
}

func (f *renderFlags) run(cmd *cobra.Command, s cli.Streams, args []string) error {
	paths := slices.Concat(f.paths, f.from, args)
	if len(paths) == 0 {
		return cli.NoPaths(cmd, "policies")
	}
	if err := f.validate(); err != nil {
		return &cli.UsageError{Command: cmd.CommandPath(), Err: err}
	}
	inputs, err := objects.Read(cmd, s, paths)
	if err != nil {
		return err
	}
	if len(f.from)+len(f.to) > 0 {
		return f.convert(cmd, s, inputs)
	}
	rendered, err := f.render(cmd.Context(), inputs)
	if err != nil {
		return err
	}
	if f.programs {
		return printPrograms(s.Out, rendered)
	}
	return printDocuments(s.Out, rendered)
}

func (f *renderFlags) validate() error {
	for _, name := range f.to {
		if !slices.Contains(targetNames(), name) {
			return fmt.Errorf("--to %s: expected %s", name, strings.Join(targetNames(), " or "))
		}
	}
	switch {
	case len(f.from) > 0 && len(f.to) > 0:
		return errors.New("--from and --to exclude each other: one makes ClusterObjectPolicies, the other converts them")
	case f.programs && len(f.from)+len(f.to) > 0:
		return errors.New("--cue excludes --from and --to: there are no programs in CUE to print")
	case f.partial && len(f.to) == 0:
		return errors.New("--partial needs --to: with --from everything is converted")
	}
	return nil
}

// render returns the policies among inputs as a cluster would store them.
func (f *renderFlags) render(ctx context.Context, inputs []objects.Input) ([]map[string]any, error) {
	var rendered []map[string]any
	untouched := errors.New("there is no policy to render")
	for _, in := range inputs {
		apiVersion, _ := in.Object["apiVersion"].(string)
		kind, _ := in.Object["kind"].(string)
		if strings.HasPrefix(apiVersion, "admissionregistration.k8s.io/") {
			untouched = fmt.Errorf("render %s: a %s has no templates, and works as it is written; 'usher explain' shows the values of its expressions, and 'usher render --from' makes a ClusterObjectPolicy of it", in.File, kind)
			continue
		}
		if !api.IsPolicy(schema.FromAPIVersionAndKind(apiVersion, kind)) {
			continue
		}
		policy, err := policies.Within(ctx, f.limits.Timeout(), kind+" "+nameIn(in.Object), func(ctx context.Context) (map[string]any, error) {
			return renderPolicy(ctx, in.Object)
		})
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", in.File, err)
		}
		rendered = append(rendered, policy)
	}
	if len(rendered) == 0 {
		return nil, untouched
	}
	return rendered, nil
}

// nameIn returns the name of an object.
func nameIn(object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	return name
}

func renderPolicy(ctx context.Context, policy map[string]any) (map[string]any, error) {
	admission := guard.Wrap(usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
		return usher.Allowed(), nil
	}), guard.Options{})
	r, err := (&policytest.Request{Operation: usher.Create, Object: policy}).For(usher.Mutate)
	if err != nil {
		return nil, err
	}
	d, err := admission.Decide(ctx, r)
	if err != nil {
		return nil, err
	}
	if d.Verdict == usher.Deny {
		return nil, errors.New(cmp.Or(d.Message, d.Reason))
	}
	patched, _, err := jsonpatch.Apply(policy, d.Patch)
	return patched, err
}

func printDocuments(w io.Writer, documents []map[string]any) error {
	for i, document := range documents {
		if i > 0 {
			if _, err := io.WriteString(w, "---\n"); err != nil {
				return err
			}
		}
		encoded, err := printable.YAML(document)
		if err != nil {
			return fmt.Errorf("encode output: %w", err)
		}
		if _, err := w.Write(encoded); err != nil {
			return err
		}
	}
	return nil
}

// printPrograms prints the rendered program of each rule below a comment that names the rule.
func printPrograms(w io.Writer, rendered []map[string]any) error {
	printed := false
	for _, policy := range rendered {
		kind, _ := policy["kind"].(string)
		metadata, _ := policy["metadata"].(map[string]any)
		spec, _ := policy["spec"].(map[string]any)
		for _, list := range []string{"overrideRules", "validateRules"} {
			rules, _ := spec[list].([]any)
			for i, entry := range rules {
				program := renderedCue(entry)
				if program == "" {
					continue
				}
				printed = true
				if _, err := fmt.Fprintf(w, "// %s %v spec.%s[%d]\n%s\n", printable.Line(kind), printable.Line(fmt.Sprint(metadata["name"])), list, i, program); err != nil {
					return err
				}
			}
		}
	}
	if !printed {
		return errors.New("the policy has no templates: there is nothing to render")
	}
	return nil
}

func renderedCue(entry any) string {
	rule, _ := entry.(map[string]any)
	holders := []map[string]any{rule}
	if overriders, ok := rule["overriders"].(map[string]any); ok {
		holders = append(holders, overriders)
	}
	for _, holder := range slices.Backward(holders) {
		if program, ok := holder["renderedCue"].(string); ok && holder["template"] != nil {
			return program
		}
	}
	return ""
}
