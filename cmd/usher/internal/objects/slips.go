package objects

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/rule"
)

// mostSlips is how many slips are told, of all objects.
const mostSlips = 5

// NoteSlips prints to s.Err what API servers do not know of the objects that people wrote: kinds, and fields with a
// name that is similar to that of a field. It reports whether there is anything.
func NoteSlips(cmd *cobra.Command, s cli.Streams, inputs []Input, kinds *kind.Set) bool {
	var all []string
	for i := range inputs {
		all = append(all, inputs[i].slips(kinds)...)
	}
	for i, text := range all {
		if i == mostSlips {
			cli.Notef(cmd, s, "warning", "objects have %d more kinds and fields that do not exist", len(all)-i)
			break
		}
		cli.Notef(cmd, s, "warning", "%s", printable.Line(text))
	}
	return len(all) > 0
}

// slips returns what API servers do not know of an object. Kinds of other groups are those of custom resources, and what
// an API server has stored has only fields that it knows.
func (i *Input) slips(kinds *kind.Set) []string {
	of := result.IdentityOf(i.Object)
	metadata, _ := i.Object["metadata"].(map[string]any)
	gvk := schema.FromAPIVersionAndKind(of.APIVersion, of.Kind)
	if i.Object == nil || metadata["uid"] != nil {
		return nil
	}
	if !kinds.Has(gvk) {
		var others []string
		for served := range kinds.Resources() {
			if served.Group == gvk.Group && served.Version == gvk.Version {
				others = append(others, served.Kind)
			}
		}
		if len(others) == 0 {
			return nil
		}
		return []string{i.at("kind") + "there is no kind " + of.Kind + " in " + of.APIVersion + meant(of.Kind, others)}
	}
	var all []string
	for _, v := range kinds.Check(kinds.Schema(gvk), i.Object, nil) {
		if suggestion := rule.Suggestion(v.Wrong, v.Fields); v.Unknown && suggestion != "" {
			path := located(i.Object, v.Path)
			all = append(all, i.at(path)+"no "+of.Kind+" has "+path+"; "+suggestion)
		}
	}
	return slices.Compact(all)
}

// at begins a text about a field of the object.
func (i *Input) at(field string) string {
	if line := i.Line(field); line > 0 {
		return fmt.Sprintf("%s:%d: ", i.File, line)
	}
	return i.File + ": "
}

func meant(wrong string, words []string) string {
	if suggestion := rule.Suggestion(wrong, words); suggestion != "" {
		return "; " + suggestion
	}
	return ""
}

// located returns the text of a path whose steps into lists are [], with the first items that have it.
func located(value any, path []string) string {
	if len(path) == 0 {
		return ""
	}
	switch v := value.(type) {
	case map[string]any:
		below, ok := v[path[0]]
		if !ok {
			return ""
		}
		rest := located(below, path[1:])
		if len(path) > 1 && rest == "" {
			return ""
		}
		if rest != "" && !strings.HasPrefix(rest, "[") {
			rest = "." + rest
		}
		return path[0] + rest
	case []any:
		for i, item := range v {
			if rest := located(item, path[1:]); rest != "" {
				return "[" + strconv.Itoa(i) + "]." + rest
			}
		}
	}
	return ""
}
