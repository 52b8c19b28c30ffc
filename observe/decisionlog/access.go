package decisionlog

import (
	"log/slog"
	"maps"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
)

// accessAttrs are the attributes of what a request asks for. Of the user's extra fields only the
// keys are logged.
func accessAttrs(attrs []slog.Attr, r *usher.Request) []slog.Attr {
	attrs = userAttrs(attrs, &r.User)
	if len(r.User.Extra) > 0 {
		attrs = append(attrs, slog.Any("extra", slices.Sorted(maps.Keys(r.User.Extra))))
	}
	attrs = append(attrs, slog.String("verb", r.Access.Verb))
	if r.Access.NonResource {
		return append(attrs, slog.String("path", r.Access.Path))
	}
	resource := r.Resource.Resource
	if r.Resource.Group != "" {
		resource += "." + r.Resource.Group
	}
	if r.Subresource != "" {
		resource += "/" + r.Subresource
	}
	attrs = append(attrs, slog.String("resource", resource), slog.String("namespace", r.Namespace), slog.String("name", r.Name))
	if len(r.Access.Labels) > 0 {
		attrs = append(attrs, slog.String("labels", clauses(r.Access.Labels)))
	}
	if len(r.Access.Fields) > 0 {
		attrs = append(attrs, slog.String("fields", clauses(r.Access.Fields)))
	}
	return attrs
}

// clauses writes a selector down.
func clauses(all []usher.Requirement) string {
	var b strings.Builder
	for i, clause := range all {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(clause.Key + " " + clause.Operator)
		if len(clause.Values) > 0 {
			b.WriteString(" (" + strings.Join(clause.Values, " ") + ")")
		}
	}
	return b.String()
}
