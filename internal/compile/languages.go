package compile

import (
	"context"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/internal/compile/kcloudlabs"
	"github.com/usher-dev/usher/internal/compile/object"
)

// languages compile templates and CUE programs in object policies as in policies of kinitiras.
type languages struct{ compiler kcloudlabs.Compiler }

// Template implements [object.Languages].
func (l languages) Template(ctx context.Context, ref usher.PolicyRef, t *v1alpha1.OverrideRuleTemplate) object.Part {
	return object.Part(l.compiler.Template(ctx, ref, t))
}

// Validation implements [object.Languages].
func (l languages) Validation(ctx context.Context, ref usher.PolicyRef, source string) object.Part {
	return object.Part(l.compiler.Validation(ctx, ref, source))
}
