package rule

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
)

// A Selector selects objects of one kind.
type Selector struct {
	APIVersion string
	Kind       string
	// Namespace and Name, if set, are compared literally. A Name makes Labels and Fields
	// irrelevant.
	Namespace string
	Name      string
	// Labels and Fields both have to match; nil matches everything.
	Labels labels.Selector
	Fields Fields
	// Never makes the selector match nothing: it was not understood. It says why.
	Never string
}

// The clauses of a selector, from coarse to fine: how far a selector got before it failed.
const (
	depthKind = iota
	depthNamespace
	depthName
	depthFields
	depthLabels
)

// Matches reports whether the selector selects s.
func (sel *Selector) Matches(s *Subject) bool {
	_, why := sel.miss(s)
	return why == ""
}

func (sel *Selector) miss(s *Subject) (depth int, why string) {
	switch {
	case sel.APIVersion != s.APIVersion || sel.Kind != s.Kind:
		return depthKind, fmt.Sprintf("%s %s is not %s %s", s.APIVersion, s.Kind, sel.APIVersion, sel.Kind)
	case sel.Namespace != "" && sel.Namespace != s.Namespace:
		return depthNamespace, fmt.Sprintf("namespace %q is not %q", s.Namespace, sel.Namespace)
	case sel.Name != "" && sel.Name != s.Name:
		return depthName, fmt.Sprintf("name %q is not %q", s.Name, sel.Name)
	case sel.Name != "":
		return 0, ""
	case sel.Never != "":
		return depthFields, sel.Never
	}
	if why := sel.Fields.miss(s.Object); why != "" {
		return depthFields, why
	}
	if sel.Labels != nil && !sel.Labels.Matches(s.Labels()) {
		return depthLabels, fmt.Sprintf("labels do not match %q", sel.Labels)
	}
	return 0, ""
}

// String is the selector in one stable line.
func (sel *Selector) String() string {
	var b strings.Builder
	b.WriteString(sel.APIVersion + " " + sel.Kind)
	switch {
	case sel.Namespace != "" && sel.Name != "":
		b.WriteString(" " + sel.Namespace + "/" + sel.Name)
	case sel.Namespace != "":
		b.WriteString(" " + sel.Namespace + "/*")
	case sel.Name != "":
		b.WriteString(" " + sel.Name)
	}
	if sel.Name != "" {
		return b.String()
	}
	if sel.Never != "" {
		b.WriteString(" never (" + sel.Never + ")")
	}
	if len(sel.Fields) > 0 {
		b.WriteString(" where " + sel.Fields.String())
	}
	if sel.Labels != nil && !sel.Labels.Empty() {
		b.WriteString(" labelled " + sel.Labels.String())
	}
	return b.String()
}
