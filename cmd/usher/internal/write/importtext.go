package write

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/usher-dev/usher/cmd/usher/internal/objects"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/convert/gatekeeper"
	"github.com/usher-dev/usher/internal/kind"
)

// A Conversion is what usher import makes of a text.
type Conversion struct {
	// Engine is the one whose policies the text has.
	Engine string
	// Policies are what they became, as YAML, and Report says what that is for each.
	Policies, Report string
}

// importable returns the engines whose policies are recognised in a text.
func importable() []engine {
	return []engine{
		{name: "Gatekeeper", is: gatekeeper.Is, policies: gatekeeper.Policies},
		{name: "Kyverno", is: isKyverno, policies: kyvernoPolicies},
	}
}

// Convert converts a text with policies of another engine, as usher import does.
func Convert(ctx context.Context, text string, limits *policies.Limits) (*Conversion, error) {
	allowed, err := limits.Limits()
	if err != nil {
		return nil, err
	}
	// Documents that are no objects are left out.
	inputs, err := objects.From("pasted.yaml", strings.NewReader(text))
	if errors.Is(err, objects.ErrNoObject) {
		err = nil
	}
	if err := cmp.Or(err, objects.Unique(inputs)); err != nil {
		return nil, err
	}
	for _, e := range importable() {
		found, others := foreign(inputs, e.is)
		if len(found) == 0 {
			continue
		}
		defined, err := kind.Defined(others)
		if err != nil {
			return nil, err
		}
		o := convert.Options{Kinds: kind.Recorded().With(defined), Limits: allowed}
		f := importFlags{engine: e, limits: *limits}
		return f.converted(ctx, found, o)
	}
	return nil, errors.New("no policies of another engine: paste ConstraintTemplates with constraints, or policies of Kyverno")
}

func (f *importFlags) converted(ctx context.Context, found []convert.Foreign, o convert.Options) (*Conversion, error) {
	imports, err := f.imports(ctx, found, o)
	if err != nil {
		return nil, err
	}
	own := testsOf(imports, nil)
	report := newImportReport(imports, nil, own, false)
	documents, err := importedFiles(imports, own)
	if err != nil {
		return nil, err
	}
	var made, told strings.Builder
	for i, d := range documents {
		if i > 0 {
			made.WriteString("---\n")
		}
		made.Write(d.Content)
	}
	if err := report.print(&told); err != nil {
		return nil, fmt.Errorf("report import: %w", err)
	}
	return &Conversion{Engine: f.name, Policies: made.String(), Report: told.String()}, nil
}
