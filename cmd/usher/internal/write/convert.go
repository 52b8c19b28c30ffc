package write

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/objects"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/rule"
)

func targetNames() []string { return []string{string(convert.Validating), string(convert.Mutating)} }

// convert prints the policies among inputs in their other form.
func (f *renderFlags) convert(cmd *cobra.Command, s cli.Streams, inputs []objects.Input) error {
	read, others, err := sortInputs(inputs)
	if err != nil {
		return err
	}
	defined, err := kind.Defined(others)
	if err != nil {
		return err
	}
	kinds := kind.Recorded().With(defined)
	conversions, err := policies.Within(cmd.Context(), f.limits.Timeout(), "convert policies", func(context.Context) ([]convert.Conversion, error) {
		if len(f.to) > 0 {
			return f.export(read)
		}
		return convert.From(read, others, kinds)
	})
	if err != nil {
		return err
	}
	incomplete := false
	var documents []map[string]any
	for i := range conversions {
		c := &conversions[i]
		if err := printLost(s.Err, c.Lost, f.partial); err != nil {
			return err
		}
		if len(c.Lost) > 0 && !f.partial {
			incomplete = true
			continue
		}
		if len(c.Lost) == 0 {
			comparison, err := policies.Within(cmd.Context(), f.limits.Timeout(), "compare both forms", func(ctx context.Context) (convert.Comparison, error) {
				return convert.Compare(ctx, c, others, kinds)
			})
			if err == nil && comparison.Difference != nil {
				err = comparison.Difference
			}
			if err != nil {
				return fmt.Errorf("convert %s: %w", nameOf(c.From[0]), err)
			}
			noteComparison(cmd, s, c, comparison)
		}
		for _, changed := range c.Changed {
			cli.Notef(cmd, s, "note", "%s", strings.TrimPrefix(changed.String(), "warning: "))
		}
		converted, err := documentsOf(c)
		if err != nil {
			return err
		}
		documents = append(documents, converted...)
	}
	if incomplete {
		return cli.ErrNegative
	}
	return printDocuments(s.Out, documents)
}

// sortInputs returns the policies among inputs, and the other objects.
func sortInputs(inputs []objects.Input) (read []api.Policy, others []map[string]any, err error) {
	for _, in := range inputs {
		if in.Object == nil {
			return nil, nil, fmt.Errorf("convert %s: an AdmissionReview is not a policy", in.File)
		}
		raw, err := json.Marshal(in.Object)
		if err != nil {
			return nil, nil, fmt.Errorf("convert %s: %w", in.File, err)
		}
		policy, err := api.Decode(raw)
		switch {
		case errors.Is(err, api.ErrUnknownKind):
			others = append(others, in.Object)
		case err != nil:
			return nil, nil, fmt.Errorf("convert %s: %w", in.File, err)
		default:
			read = append(read, policy)
		}
	}
	return read, others, nil
}

// export converts the object policies.
func (f *renderFlags) export(read []api.Policy) ([]convert.Conversion, error) {
	var targets []convert.Target
	for _, name := range f.to {
		targets = append(targets, convert.Target(name))
	}
	var conversions []convert.Conversion
	for i := range read {
		if _, ok := read[i].Object.(*v1alpha1.ClusterObjectPolicy); !ok {
			continue
		}
		c, err := convert.To(&read[i], targets, read)
		if err != nil {
			return nil, err
		}
		conversions = append(conversions, c)
	}
	if len(conversions) == 0 {
		return nil, errors.New("there is no ClusterObjectPolicy to convert")
	}
	return conversions, nil
}

func printLost(w io.Writer, lost []rule.Problem, partial bool) error {
	for _, p := range lost {
		if partial {
			p.Severity = rule.Warning
		}
		if _, err := fmt.Fprintln(w, p); err != nil {
			return err
		}
	}
	return nil
}

// noteComparison prints how sure it is that both forms decide alike.
func noteComparison(cmd *cobra.Command, s cli.Streams, c *convert.Conversion, found convert.Comparison) {
	switch name := nameOf(c.From[0]); {
	case found.Requests == 0:
		cli.Notef(cmd, s, "warning", "%s: not compared, because no resource that it selects is known: name the files with its CustomResourceDefinitions, too", name)
	case found.Effective == 0:
		cli.Notef(cmd, s, "warning", "%s: both forms allow all of %d generated requests: compare them with some of yours", name, found.Requests)
	default:
		cli.Notef(cmd, s, "note", "%s: both forms decide %d generated requests alike, %d of which are not simply allowed", name, found.Requests, found.Effective)
	}
}

func nameOf(o api.Object) string {
	k, _ := api.KindOf(o)
	return usher.PolicyRef{Kind: k.Kind, Namespace: o.GetNamespace(), Name: o.GetName()}.String()
}

// documentsOf returns the new form of a policy, and its params, as they are printed.
func documentsOf(c *convert.Conversion) ([]map[string]any, error) {
	policies, err := convert.Documents(c.To)
	return slices.Concat(c.Params, policies), err
}
