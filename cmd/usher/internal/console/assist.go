package console

import (
	"context"
	"fmt"

	"github.com/usher-dev/usher/internal/assist"
)

// Diagnostics are what is wrong with a text.
type Diagnostics struct {
	Diagnostics []Diagnostic `json:"diagnostics"`
}

// A Diagnostic is a problem at a place.
type Diagnostic struct {
	Start    assist.Position `json:"start"`
	End      assist.Position `json:"end"`
	Severity string          `json:"severity"`
	Message  string          `json:"message"`
	Fixes    []Fix           `json:"fixes"`
}

// A Fix corrects a problem.
type Fix struct {
	Title string `json:"title"`
	Edits []Edit `json:"edits"`
}

// An Edit replaces a part of a text.
type Edit struct {
	Start assist.Position `json:"start"`
	End   assist.Position `json:"end"`
	Text  string          `json:"text"`
}

// Edits are what formats a text.
type Edits struct {
	Edits []Edit `json:"edits"`
}

func reindent(_ context.Context, in *Text) (*Edits, error) {
	edits, err := assist.Format(in.Text)
	if err != nil {
		return nil, err
	}
	content, all := assist.NewContent(in.Text), &Edits{[]Edit{}}
	for _, e := range edits {
		at := content.Span(e.Range)
		all.Edits = append(all.Edits, Edit{at.Start, at.End, e.Insert})
	}
	return all, nil
}

// mostDiagnostics limits what is said about a text.
const mostDiagnostics = 500

func (b *bench) diagnose(ctx context.Context, in *Text) (*Diagnostics, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	found, err := b.writing.Check(ctx, in.Text)
	if err != nil {
		return nil, fmt.Errorf("check policies: %w", err)
	}
	content, all := assist.NewContent(in.Text), &Diagnostics{[]Diagnostic{}}
	for i := range found {
		if i == mostDiagnostics {
			break
		}
		d := &found[i]
		at := content.Span(d.Range)
		one := Diagnostic{at.Start, at.End, string(d.Severity), d.Message, []Fix{}}
		if d.Fix != nil {
			part := content.Span(d.Fix.Range)
			one.Fixes = append(one.Fixes, Fix{d.Fix.Title, []Edit{{part.Start, part.End, d.Fix.Insert}}})
		}
		all.Diagnostics = append(all.Diagnostics, one)
	}
	return all, nil
}

// A Place is one in a text.
type Place struct {
	Text string `json:"text"`
	assist.Position
}

// Completions are what can be written at a place.
type Completions struct {
	Items []Completion `json:"items"`
}

// A Completion is something that can be written.
type Completion struct {
	Label         string          `json:"label"`
	Detail        string          `json:"detail"`
	Documentation string          `json:"documentation"`
	Insert        string          `json:"insert"`
	Start         assist.Position `json:"start"`
	End           assist.Position `json:"end"`
}

func (b *bench) complete(ctx context.Context, in *Place) (*Completions, error) {
	content, all := assist.NewContent(in.Text), &Completions{[]Completion{}}
	for _, c := range b.assistant.Complete(ctx, in.Text, content.Offset(in.Position)) {
		at := content.Span(c.Range)
		all.Items = append(all.Items, Completion{c.Label, c.Detail, c.Text, c.Insert, at.Start, at.End})
	}
	return all, nil
}

func (b *bench) hover(ctx context.Context, in *Place) (*Text, error) {
	// Nothing is known of many places.
	h, _ := b.assistant.Hover(ctx, in.Text, assist.NewContent(in.Text).Offset(in.Position))
	return &Text{h.Text}, nil
}
