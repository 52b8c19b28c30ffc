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
	// Namespace and Name, if set, are compared literally. If Name is set, Labels and Fields are
	// ignored.
	Namespace string
	Name      string
	// Labels and Fields both have to match; nil matches everything.
	Labels labels.Selector
	Fields Fields
	// Never makes the selector match nothing, because it is invalid; it is the reason.
	Never string
}

// A depth is how many clauses of a selector a target matches, coarse to fine: it names the clause
// that failed.
type depth int

const (
	depthKind depth = iota
	depthNamespace
	depthName
	depthFields
	depthLabels
	depthAll
)

// Matches reports whether the selector selects s.
func (sel *Selector) Matches(s *Target) bool { return sel.reach(s) == depthAll }

// reach returns the clause that s does not match, or depthAll.
func (sel *Selector) reach(s *Target) depth {
	switch {
	case sel.APIVersion != s.APIVersion || sel.Kind != s.Kind:
		return depthKind
	case sel.Namespace != "" && sel.Namespace != s.Namespace:
		return depthNamespace
	case sel.Name != "" && sel.Name != s.Name:
		return depthName
	case sel.Name != "":
		return depthAll
	case sel.Never != "" || !sel.Fields.Matches(s.Object):
		return depthFields
	case sel.Labels != nil && !sel.Labels.Matches(s.Labels()):
		return depthLabels
	}
	return depthAll
}

// miss returns why s, which got as far as d, is not selected.
func (sel *Selector) miss(s *Target, d depth) string {
	switch {
	case d == depthKind:
		return fmt.Sprintf("%s %s is not %s %s", s.APIVersion, s.Kind, sel.APIVersion, sel.Kind)
	case d == depthNamespace:
		return fmt.Sprintf("namespace %q is not %q", s.Namespace, sel.Namespace)
	case d == depthName:
		return fmt.Sprintf("name %q is not %q", s.Name, sel.Name)
	case d == depthFields && sel.Never != "":
		return sel.Never
	case d == depthFields:
		return fmt.Sprintf("field does not match %q", sel.Fields.unmet(s.Object))
	case d == depthLabels:
		return fmt.Sprintf("labels do not match %q", sel.Labels)
	}
	return ""
}

// String formats the selector as one stable line.
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
